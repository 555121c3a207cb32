# cython: language_level=3
"""The record codec, compiled. `_codec_py.py` is its twin and describes the format.

Nothing here trusts the bytes it reads: each read is checked against the end of the record it
belongs to, and each record against the end of the buffer. Functions that read return NULL when
all is well, else what is wrong.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from barnabas.model.errors import DecodeError
from barnabas.wire.records.errors import RecordError

cdef enum:
    RECORD_BYTES_MIN = 7
    HEADER_BYTES_MIN = 2
    VARINT_BYTES_MAX = 5


cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end


cdef struct Slice:
    # A size of -1 is a null field, and `start` then says nothing.
    const uint8_t* start
    int32_t size


cdef struct Fields:
    int64_t timestamp_delta
    int32_t offset_delta
    Slice key
    Slice value
    int32_t header_count
    Cursor headers


cdef struct Sink:
    uint8_t* start
    size_t used
    size_t room


# --- reading ----------------------------------------------------------------------------------


cdef inline const char* read_zigzag(
    Cursor* cursor, int bits, uint64_t* zigzag
) noexcept nogil:
    cdef uint64_t number = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift < bits:
        if cursor.at >= cursor.end:
            return b"it ends inside a number"
        byte = cursor.at[0]
        cursor.at += 1
        # Bits of the last byte that do not fit would be shifted out unseen.
        if shift + 7 > bits and (byte & 0x7F) >> (bits - shift):
            return b"a number is too large"
        number |= (<uint64_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            zigzag[0] = number
            return NULL
        shift += 7
    return b"a number is too large"


cdef inline int64_t unzigzag(uint64_t zigzag) noexcept nogil:
    return <int64_t>((zigzag >> 1) ^ (0 - (zigzag & 1)))


cdef inline const char* read_varint(Cursor* cursor, int32_t* number) noexcept nogil:
    cdef uint64_t zigzag = 0
    cdef const char* problem
    if cursor.at < cursor.end and cursor.at[0] < 0x80:
        zigzag = cursor.at[0]
        cursor.at += 1
    else:
        problem = read_zigzag(cursor, 32, &zigzag)
        if problem != NULL:
            return problem
    number[0] = <int32_t>unzigzag(zigzag)
    return NULL


cdef inline const char* read_slice(Cursor* cursor, Slice* field) noexcept nogil:
    cdef const char* problem = read_varint(cursor, &field.size)
    if problem != NULL:
        return problem
    field.start = cursor.at
    if field.size == -1:
        return NULL
    if field.size < 0 or field.size > cursor.end - cursor.at:
        return b"the length of a field is not what follows"
    cursor.at += field.size
    return NULL


cdef inline const char* read_fields(Cursor* cursor, Fields* fields) noexcept nogil:
    """One record up to its headers, for which `fields.headers` is left; moves `cursor` past it."""
    cdef int32_t length = 0
    cdef uint64_t zigzag = 0
    cdef Cursor body
    cdef const char* problem = read_varint(cursor, &length)
    if problem != NULL:
        return problem
    if length <= 0 or length > cursor.end - cursor.at:
        return b"its length is not what follows"
    # The attributes of a record, one byte, are unused so far.
    body.at = cursor.at + 1
    body.end = cursor.at + length
    cursor.at = body.end
    problem = read_zigzag(&body, 64, &zigzag)
    if problem != NULL:
        return problem
    fields.timestamp_delta = unzigzag(zigzag)
    problem = read_varint(&body, &fields.offset_delta)
    if problem != NULL:
        return problem
    problem = read_slice(&body, &fields.key)
    if problem != NULL:
        return problem
    problem = read_slice(&body, &fields.value)
    if problem != NULL:
        return problem
    problem = read_varint(&body, &fields.header_count)
    if problem != NULL:
        return problem
    if fields.header_count < 0 or fields.header_count > (body.end - body.at) // HEADER_BYTES_MIN:
        return b"its count of headers is not what follows"
    if fields.header_count == 0 and body.at != body.end:
        return b"it is longer than its fields"
    fields.headers = body
    return NULL


cdef inline const char* read_header(Cursor* cursor, Slice* name, Slice* value) noexcept nogil:
    cdef const char* problem = read_slice(cursor, name)
    if problem != NULL:
        return problem
    if name.size < 0:
        return b"a header without a key"
    return read_slice(cursor, value)


cdef inline const char* check_offset(
    int32_t delta, int32_t previous, int64_t last
) noexcept nogil:
    if delta <= previous:
        return b"its offset does not ascend"
    if delta > last:
        return b"its offset is too large"
    return NULL


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


cdef const char* skip_headers(Fields* fields) noexcept nogil:
    cdef Slice name, value
    cdef int32_t index
    cdef const char* problem
    for index in range(fields.header_count):
        problem = read_header(&fields.headers, &name, &value)
        if problem != NULL:
            return problem
    if fields.headers.at != fields.headers.end:
        return b"it is longer than its fields"
    return NULL


cdef int refuse(const char* problem, Py_ssize_t index) except -1:
    raise RecordError(f"record {index}: {problem.decode('ascii')}", (index,))


cdef int check_count(Py_ssize_t count, Py_ssize_t size) except -1:
    """Before anything is allocated for records that can not be there."""
    if count < 0 or count > size // RECORD_BYTES_MIN:
        raise DecodeError(f"{count} records can not be in {size} bytes")
    return 0


cdef int check_end(Cursor* cursor, Py_ssize_t count) except -1:
    if cursor.at != cursor.end:
        raise DecodeError(f"{cursor.end - cursor.at} bytes are left over after {count} records")
    return 0


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
    """Room for `size` more bytes; growth doubles, so that copying stays linear."""
    cdef size_t room = sink.room
    cdef void* grown
    if sink.used + size <= room:
        return 0
    room = max(room * 2, sink.used + size, <size_t>256)
    grown = realloc(sink.start, room)
    if grown == NULL:
        raise MemoryError()
    sink.start = <uint8_t*>grown
    sink.room = room
    return 0


cdef inline uint64_t zigzag_of(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ (0 - (<uint64_t>number >> 63))


cdef inline size_t varint_size(uint64_t zigzag) noexcept nogil:
    cdef size_t size = 1
    while zigzag > 0x7F:
        zigzag >>= 7
        size += 1
    return size


cdef inline void put_varint(Sink* sink, uint64_t zigzag) noexcept nogil:
    """The caller has reserved the room."""
    while zigzag > 0x7F:
        sink.start[sink.used] = <uint8_t>(zigzag & 0x7F | 0x80)
        sink.used += 1
        zigzag >>= 7
    sink.start[sink.used] = <uint8_t>zigzag
    sink.used += 1


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
