# cython: language_level=3
"""The record codec, compiled. `_codec_py.py` is its twin and describes the format.

The pieces of a record, and the care with which they are read, are in `_records.pxi`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdlib cimport calloc, malloc

include "_records.pxi"


# --- reading ----------------------------------------------------------------------------------


cdef inline object to_bytes(Slice* field):
    if field.size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char*>field.start, field.size)


cdef list to_headers(Fields* fields, const char** problem):
    cdef list headers = []
    cdef Slice name, value
    cdef int32_t index
    for index in range(fields.header_count):
        problem[0] = read_header(&fields.headers, &name, &value)
        if problem[0] != NULL:
            return headers
        key = PyUnicode_DecodeUTF8(<const char*>name.start, name.size, "surrogateescape")
        headers.append((key, to_bytes(&value)))
    if fields.headers.at != fields.headers.end:
        problem[0] = b"it is longer than its fields"
    return headers


cdef list decode_all(
    Cursor* cursor, Py_ssize_t count, int64_t base_offset, int64_t base_timestamp,
    int64_t append_time,
):
    cdef list records = []
    cdef list headers = None
    cdef Fields fields
    cdef int32_t previous = -1
    cdef int64_t timestamp = append_time
    cdef int64_t last = INT64_MAX - base_offset if base_offset > 0 else INT64_MAX
    cdef const char* problem
    cdef Py_ssize_t index
    for index in range(count):
        problem = read_fields(cursor, &fields)
        if problem == NULL:
            headers = to_headers(&fields, &problem)
        if problem == NULL:
            problem = check_offset(fields.offset_delta, previous, last)
        if problem != NULL:
            refuse(problem, index)
        previous = fields.offset_delta
        if append_time == -1:
            # Wraps, as other implementations do; unsigned, because signed overflow is undefined.
            timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>fields.timestamp_delta)
        records.append((
            base_offset + fields.offset_delta,
            timestamp,
            to_bytes(&fields.key),
            to_bytes(&fields.value),
            headers,
        ))
    check_end(cursor, count)
    return records


cdef list find_keyless(Cursor* cursor, Py_ssize_t count, int64_t last_offset_delta):
    cdef list keyless = []
    cdef Fields fields
    cdef int32_t previous = -1
    cdef const char* problem
    cdef Py_ssize_t index
    for index in range(count):
        problem = read_fields(cursor, &fields)
        if problem == NULL:
            problem = skip_headers(&fields)
        if problem == NULL:
            problem = check_offset(fields.offset_delta, previous, last_offset_delta)
        if problem != NULL:
            refuse(problem, index)
        previous = fields.offset_delta
        if fields.key.size < 0:
            keyless.append(index)
    check_end(cursor, count)
    return keyless


def decode_records(
    data, Py_ssize_t count, int64_t base_offset, int64_t base_timestamp, int64_t append_time
):
    """Exactly `count` records, as (offset, timestamp, key, value, headers)."""
    cdef Py_buffer view
    cdef Cursor cursor
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        check_count(count, view.len)
        cursor.at = <const uint8_t*>view.buf
        cursor.end = cursor.at + view.len
        return decode_all(&cursor, count, base_offset, base_timestamp, append_time)
    finally:
        PyBuffer_Release(&view)


def keyless_records(data, Py_ssize_t count, int64_t last_offset_delta):
    """Indexes of the records without a key, after reading all `count`."""
    cdef Py_buffer view
    cdef Cursor cursor
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        check_count(count, view.len)
        cursor.at = <const uint8_t*>view.buf
        cursor.end = cursor.at + view.len
        return find_keyless(&cursor, count, last_offset_delta)
    finally:
        PyBuffer_Release(&view)


# --- writing ----------------------------------------------------------------------------------


cdef int reserve(Sink* sink, size_t size) except -1:
    if not grow(sink, size):
        raise MemoryError()
    return 0


cdef inline object as_bytes(object content):
    # memoryview() refuses what is not bytes; bytes(5) would silently be five zeros.
    if content is None or PyBytes_CheckExact(content):
        return content
    return bytes(memoryview(content))


cdef inline size_t field_size(object content) noexcept:
    cdef Py_ssize_t size
    if content is None:
        return 1
    size = PyBytes_GET_SIZE(content)
    return varint_size(zigzag_of(size)) + size


cdef inline void put_field(Sink* sink, object content) noexcept:
    """The caller has reserved the room; `content` is None or exactly bytes."""
    cdef Py_ssize_t size
    if content is None:
        put_varint(sink, 1)
        return
    size = PyBytes_GET_SIZE(content)
    put_varint(sink, zigzag_of(size))
    if size:
        memcpy(sink.start + sink.used, PyBytes_AS_STRING(content), size)
        sink.used += size


cdef int put_headers(Sink* sink, object headers) except -1:
    cdef str key
    for name, value in headers:
        key = name
        encoded = key.encode("utf-8", "surrogateescape")
        content = as_bytes(value)
        reserve(sink, field_size(encoded) + field_size(content))
        put_field(sink, encoded)
        put_field(sink, content)
    return 0


cdef int put_record(
    Sink* out, Sink* scratch, uint64_t timestamp, int64_t delta, object key, object value,
    object headers,
) except -1:
    """The record's length comes first, so its headers are laid out in `scratch` beforehand."""
    cdef size_t body
    cdef uint64_t header_count = zigzag_of(len(headers))
    key = as_bytes(key)
    value = as_bytes(value)
    scratch.used = 0
    put_headers(scratch, headers)
    body = (
        1 + varint_size(timestamp) + varint_size(zigzag_of(delta)) + field_size(key)
        + field_size(value) + varint_size(header_count) + scratch.used
    )
    if body > INT32_MAX:
        raise ValueError("a record of more than 2^31 bytes")
    reserve(out, body + VARINT_BYTES_MAX)
    put_varint(out, zigzag_of(body))
    out.start[out.used] = 0
    out.used += 1
    put_varint(out, timestamp)
    put_varint(out, zigzag_of(delta))
    put_field(out, key)
    put_field(out, value)
    put_varint(out, header_count)
    if scratch.used:
        memcpy(out.start + out.used, scratch.start, scratch.used)
        out.used += scratch.used
    return 0


def encode_records(records, int64_t base_offset, int64_t base_timestamp):
    """The bytes of `records`, whose offsets ascend from `base_offset` or later."""
    cdef Sink out = Sink(NULL, 0, 0)
    cdef Sink scratch = Sink(NULL, 0, 0)
    cdef int64_t offset, timestamp, delta, previous = -1
    try:
        for offset_given, timestamp_given, key, value, headers in records:
            offset = offset_given
            timestamp = timestamp_given
            delta = <int64_t>(<uint64_t>offset - <uint64_t>base_offset)
            if delta <= previous or delta > INT32_MAX or offset < base_offset:
                raise ValueError(
                    f"offset {offset} does not ascend from {base_offset} within 2^31"
                )
            previous = delta
            put_record(
                &out, &scratch,
                zigzag_of(<int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp)),
                delta, key, value, headers,
            )
        return PyBytes_FromStringAndSize(<const char*>out.start, out.used)
    finally:
        free(out.start)
        free(scratch.start)


# --- compaction -------------------------------------------------------------------------------


SLOT_BYTES = 24
"""What a key costs in `KeyOffsets`: sixteen bytes of hash and eight of offset."""


cdef struct Slot:
    # Zero in `next_offset`, which is the offset and one more, is an empty slot.
    uint64_t low
    uint64_t high
    uint64_t next_offset


cdef struct Sip:
    uint64_t v0
    uint64_t v1
    uint64_t v2
    uint64_t v3


cdef struct Kept:
    Py_ssize_t count
    bint tombstones
    int64_t max_timestamp


cdef inline uint64_t rotated(uint64_t word, int bits) noexcept nogil:
    return (word << bits) | (word >> (64 - bits))


cdef inline void sip_round(Sip* sip) noexcept nogil:
    sip.v0 += sip.v1
    sip.v2 += sip.v3
    sip.v1 = rotated(sip.v1, 13) ^ sip.v0
    sip.v3 = rotated(sip.v3, 16) ^ sip.v2
    sip.v0 = rotated(sip.v0, 32)
    sip.v2 += sip.v1
    sip.v0 += sip.v3
    sip.v1 = rotated(sip.v1, 17) ^ sip.v2
    sip.v3 = rotated(sip.v3, 21) ^ sip.v0
    sip.v2 = rotated(sip.v2, 32)


cdef inline void sip_word(Sip* sip, uint64_t word) noexcept nogil:
    sip.v3 ^= word
    sip_round(sip)
    sip_round(sip)
    sip.v0 ^= word


cdef inline uint64_t sip_output(Sip* sip) noexcept nogil:
    cdef int round
    for round in range(4):
        sip_round(sip)
    return sip.v0 ^ sip.v1 ^ sip.v2 ^ sip.v3


cdef void hash_key(const Slot* secret, Slice* key, Slot* hashed) noexcept nogil:
    """SipHash-2-4 with 128 bits: without the secret nobody can make two keys meet."""
    cdef Sip sip
    cdef const uint8_t* at = key.start
    cdef const uint8_t* end = at + (key.size & ~7)
    cdef uint64_t word
    sip.v0 = secret.low ^ <uint64_t>0x736F6D6570736575
    sip.v1 = secret.high ^ <uint64_t>0x646F72616E646F6D ^ 0xEE
    sip.v2 = secret.low ^ <uint64_t>0x6C7967656E657261
    sip.v3 = secret.high ^ <uint64_t>0x7465646279746573
    while at < end:
        memcpy(&word, at, 8)
        sip_word(&sip, word)
        at += 8
    word = 0
    memcpy(&word, at, key.size & 7)
    sip_word(&sip, word | (<uint64_t>key.size << 56))
    sip.v2 ^= 0xEE
    hashed.low = sip_output(&sip)
    sip.v1 ^= 0xDD
    hashed.high = sip_output(&sip)


cdef class KeyOffsets:
    """The latest offset of each key, by a keyed hash of it, in one block of `memory` bytes."""

    cdef Slot* slots
    cdef uint64_t slot_count
    cdef Slot secret
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t used

    def __cinit__(self, Py_ssize_t memory, double load_factor, bytes secret):
        if len(secret) != 16:
            raise ValueError("the secret of the hash has 16 bytes")
        self.slot_count = max(memory // <Py_ssize_t>sizeof(Slot), 2)
        self.capacity = max(min(<Py_ssize_t>(self.slot_count * load_factor), self.slot_count - 1), 1)
        memcpy(&self.secret.low, PyBytes_AS_STRING(secret), 8)
        memcpy(&self.secret.high, PyBytes_AS_STRING(secret) + 8, 8)
        # Zeroed, and only the pages really used cost memory.
        self.slots = <Slot*>calloc(self.slot_count, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.slots)

    def __len__(self):
        return self.used

    cdef inline Slot* find(self, Slice* key, Slot* hashed) noexcept nogil:
        """The slot of a key, or the empty one where it belongs: there always is one."""
        cdef Slot* slot
        cdef Slot* end = self.slots + self.slot_count
        hash_key(&self.secret, key, hashed)
        slot = self.slots + hashed.low % self.slot_count
        while slot.next_offset != 0 and (slot.low != hashed.low or slot.high != hashed.high):
            slot += 1
            if slot == end:
                slot = self.slots
        return slot

    def note(
        self, data, Py_ssize_t count, int64_t base_offset, int64_t last_offset_delta,
        int64_t first_offset,
    ):
        """Remember the keys of the records from `first_offset` on.

        The offset of the first that found no room, or -1.
        """
        cdef Py_buffer view
        cdef Cursor cursor
        cdef const char* problem
        cdef Py_ssize_t index = 0
        cdef int64_t refused = -1
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            check_count(count, view.len)
            cursor.at = <const uint8_t*>view.buf
            cursor.end = cursor.at + view.len
            with nogil:
                problem = self.note_all(
                    &cursor, count, base_offset, last_offset_delta, first_offset, &index, &refused
                )
            if problem != NULL:
                refuse(problem, index)
            if refused < 0:
                check_end(&cursor, count)
            return refused
        finally:
            PyBuffer_Release(&view)

    cdef const char* note_all(
        self, Cursor* cursor, Py_ssize_t count, int64_t base_offset, int64_t last_offset_delta,
        int64_t first_offset, Py_ssize_t* index, int64_t* refused,
    ) noexcept nogil:
        cdef Fields fields
        cdef Slot hashed
        cdef Slot* slot
        cdef int32_t previous = -1
        cdef int64_t offset
        cdef const char* problem
        while index[0] < count:
            problem = read_fields(cursor, &fields)
            if problem == NULL:
                problem = check_offset(fields.offset_delta, previous, last_offset_delta)
            if problem != NULL:
                return problem
            previous = fields.offset_delta
            offset = base_offset + fields.offset_delta
            if fields.key.size >= 0 and offset >= first_offset:
                slot = self.find(&fields.key, &hashed)
                if slot.next_offset == 0:
                    if self.used >= self.capacity:
                        refused[0] = offset
                        return NULL
                    self.used += 1
                    slot.low = hashed.low
                    slot.high = hashed.high
                slot.next_offset = <uint64_t>offset + 1
            index[0] += 1
        return NULL

    def keep(
        self, data, Py_ssize_t count, int64_t base_offset, int64_t last_offset_delta,
        int64_t base_timestamp, int64_t latest, bint tombstones,
    ):
        """Which records stay: those after `latest`, and the last of each key.

        How many, their bytes (None: all of them), whether there are tombstones among them, and
        the greatest of their timestamps.
        """
        cdef Py_buffer view
        cdef Cursor cursor
        cdef Sink sink = Sink(NULL, 0, 0)
        cdef Kept kept = Kept(0, 0, INT64_MIN)
        cdef const char* problem
        cdef Py_ssize_t index = 0
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            check_count(count, view.len)
            cursor.at = <const uint8_t*>view.buf
            cursor.end = cursor.at + view.len
            sink.start = <uint8_t*>malloc(max(view.len, 1))
            if sink.start == NULL:
                raise MemoryError()
            with nogil:
                problem = self.keep_all(
                    &cursor, count, base_offset, last_offset_delta, base_timestamp, latest,
                    tombstones, &sink, &kept, &index,
                )
            if problem != NULL:
                refuse(problem, index)
            check_end(&cursor, count)
            body = None
            if kept.count < count:
                body = PyBytes_FromStringAndSize(<const char*>sink.start, sink.used)
            return kept.count, body, bool(kept.tombstones), kept.max_timestamp
        finally:
            free(sink.start)
            PyBuffer_Release(&view)

    cdef const char* keep_all(
        self, Cursor* cursor, Py_ssize_t count, int64_t base_offset, int64_t last_offset_delta,
        int64_t base_timestamp, int64_t latest, bint tombstones, Sink* sink, Kept* kept,
        Py_ssize_t* index,
    ) noexcept nogil:
        """Records that stay are copied in runs, once one has gone: mostly all of them stay."""
        cdef Fields fields
        cdef Slot hashed
        cdef const uint8_t* run = cursor.at
        cdef const uint8_t* start
        cdef int32_t previous = -1
        cdef int64_t offset, timestamp
        cdef bint stays
        cdef const char* problem
        while index[0] < count:
            start = cursor.at
            problem = read_fields(cursor, &fields)
            if problem == NULL:
                problem = check_offset(fields.offset_delta, previous, last_offset_delta)
            if problem != NULL:
                return problem
            previous = fields.offset_delta
            offset = base_offset + fields.offset_delta
            if offset > latest:
                stays = True
            elif fields.key.size < 0 or (fields.value.size < 0 and not tombstones):
                stays = False
            else:
                stays = self.find(&fields.key, &hashed).next_offset <= <uint64_t>offset + 1
            if stays:
                kept.count += 1
                kept.tombstones |= fields.value.size < 0
                timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>fields.timestamp_delta)
                kept.max_timestamp = max(kept.max_timestamp, timestamp)
            else:
                put_bytes(sink, run, start - run)
                run = cursor.at
            index[0] += 1
        put_bytes(sink, run, cursor.at - run)
        return NULL


def rebase_records(data, Py_ssize_t count, int64_t shift):
    """The same records with `shift` added to their timestamp deltas."""
    cdef Py_buffer view
    cdef Cursor cursor
    cdef Cursor body = Cursor(NULL, NULL)
    cdef Sink out = Sink(NULL, 0, 0)
    cdef uint64_t zigzag = 0
    cdef int32_t length = 0
    cdef size_t size
    cdef const char* problem
    cdef Py_ssize_t index
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        check_count(count, view.len)
        cursor.at = <const uint8_t*>view.buf
        cursor.end = cursor.at + view.len
        for index in range(count):
            problem = read_varint(&cursor, &length)
            if problem == NULL and not 0 < length <= cursor.end - cursor.at:
                problem = b"its length is not what follows"
            if problem == NULL:
                body.at = cursor.at + 1
                body.end = cursor.at + length
                problem = read_zigzag(&body, 64, &zigzag)
            if problem != NULL:
                refuse(problem, index)
            zigzag = zigzag_of(<int64_t>(<uint64_t>unzigzag(zigzag) + <uint64_t>shift))
            size = 1 + varint_size(zigzag) + (body.end - body.at)
            if size > INT32_MAX:
                raise ValueError("a record of more than 2^31 bytes")
            reserve(&out, size + VARINT_BYTES_MAX)
            put_varint(&out, zigzag_of(size))
            put_bytes(&out, cursor.at, 1)
            put_varint(&out, zigzag)
            put_bytes(&out, body.at, body.end - body.at)
            cursor.at = body.end
        check_end(&cursor, count)
        return PyBytes_FromStringAndSize(<const char*>out.start, out.used)
    finally:
        free(out.start)
        PyBuffer_Release(&view)
