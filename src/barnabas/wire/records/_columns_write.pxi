"""Columns to records, compiled, and to the partitions of their keys: a part of `_columns.pyx`."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t

cdef const char* NO_MEMORY = b"there is no memory"


cdef class Held:
    """Somebody's memory, which can neither move nor go meanwhile."""

    cdef Py_buffer view

    def __cinit__(self, source):
        PyObject_GetBuffer(source, &self.view, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef struct Elements:
    # Of a column to read from: `count` of them have a bit and two offsets, so much is checked.
    const uint8_t* bits
    const uint8_t* offsets
    const uint8_t* data
    int64_t data_size
    int64_t start
    int64_t count


cdef struct Table:
    int64_t rows
    bint with_keys
    bint with_values
    bint with_headers
    Elements keys
    Elements values
    Elements lists
    Elements names
    Elements contents
    const uint8_t* timestamps
    const uint8_t* order
    int64_t first
    int64_t count
    int64_t base_timestamp
    int64_t bytes_max


cdef struct Written:
    Sink out
    Sink scratch
    int64_t taken
    int64_t latest
    int64_t row


cdef const uint8_t* hold(list held, object source, Py_ssize_t* size) except NULL:
    cdef Held one = Held(source)
    held.append(one)
    size[0] = one.view.len
    # Of nothing there may be no address.
    return <const uint8_t*>one.view.buf if one.view.len else <const uint8_t*>b""


cdef int open_elements(
    list held, str what, object validity, object offsets, object data, int64_t start,
    Elements* elements,
) except -1:
    cdef Py_ssize_t size = 0
    if start < 0:
        raise ValueError(f"the {what} start before their buffers")
    elements.start = start
    elements.offsets = hold(held, offsets, &size)
    elements.count = size // <Py_ssize_t>sizeof(int32_t) - 1 - start
    elements.bits = NULL
    if validity is not None:
        elements.bits = hold(held, validity, &size)
        elements.count = min(elements.count, size * 8 - start)
    elements.count = max(elements.count, <int64_t>0)
    elements.data = hold(held, data, &size)
    elements.data_size = size
    return 0


cdef int open_rows(list held, str what, column, int64_t rows, Elements* elements) except -1:
    data = b"" if isinstance(column, Nested) else column.data
    open_elements(
        held, what, column.validity, column.offsets, data, column.start, elements
    )
    if rows > elements.count:
        raise ValueError(f"the {what} have {elements.count} rows, not {rows}")
    return 0


cdef inline bint is_null(const Elements* elements, int64_t index) noexcept nogil:
    cdef int64_t place = elements.start + index
    return elements.bits != NULL and not (elements.bits[place >> 3] >> (place & 7)) & 1


cdef inline int32_t offset_at(const Elements* elements, int64_t index) noexcept nogil:
    cdef int32_t offset
    memcpy(&offset, elements.offsets + (elements.start + index) * sizeof(int32_t), sizeof(int32_t))
    return offset


cdef inline bint find_element(
    const Elements* elements, int64_t index, Slice* found
) noexcept nogil:
    """The caller has compared `index` with the count."""
    cdef int32_t begin, end
    found.start = NULL
    found.size = -1
    if is_null(elements, index):
        return True
    begin = offset_at(elements, index)
    end = offset_at(elements, index + 1)
    if begin < 0 or end < begin or end > elements.data_size:
        return False
    found.start = elements.data + begin
    found.size = end - begin
    return True


cdef inline size_t slice_size(const Slice* field) noexcept nogil:
    if field.size < 0:
        return 1
    return varint_size(zigzag_of(field.size)) + <size_t>field.size


cdef inline void put_slice(Sink* sink, const Slice* field) noexcept nogil:
    """The caller has reserved the room."""
    put_varint(sink, zigzag_of(field.size))
    if field.size > 0:
        put_bytes(sink, field.start, field.size)


cdef const char* lay_out_headers(
    const Table* table, int64_t row, Sink* scratch, int32_t* count
) noexcept nogil:
    cdef Slice name, value
    cdef int64_t index, begin, end
    count[0] = 0
    scratch.used = 0
    if not table.with_headers or is_null(&table.lists, row):
        return NULL
    begin = offset_at(&table.lists, row)
    end = offset_at(&table.lists, row + 1)
    if begin < 0 or end < begin or end > min(table.names.count, table.contents.count):
        return b"its headers are not within their columns"
    for index in range(begin, end):
        if not find_element(&table.names, index, &name):
            return b"its place in the header names is not within their data"
        if name.size < 0:
            return b"a header without a key"
        if not find_element(&table.contents, index, &value):
            return b"its place in the header values is not within their data"
        if not grow(scratch, slice_size(&name) + slice_size(&value)):
            return NO_MEMORY
        put_slice(scratch, &name)
        put_slice(scratch, &value)
    count[0] = <int32_t>(end - begin)
    return NULL


cdef const char* put_record(
    const Table* table, int64_t row, int64_t timestamp, Written* written, bint* fits
) noexcept nogil:
    """The record's length comes first, so its headers are laid out in scratch beforehand."""
    cdef Slice key = Slice(NULL, -1)
    cdef Slice value = Slice(NULL, -1)
    cdef Sink* out = &written.out
    cdef uint64_t delta, offset_delta = zigzag_of(written.taken)
    cdef int32_t header_count = 0
    cdef size_t body, whole
    cdef const char* problem
    if table.with_keys and not find_element(&table.keys, row, &key):
        return b"its place in the keys is not within their data"
    if table.with_values and not find_element(&table.values, row, &value):
        return b"its place in the values is not within their data"
    problem = lay_out_headers(table, row, &written.scratch, &header_count)
    if problem != NULL:
        return problem
    delta = zigzag_of(<int64_t>(<uint64_t>timestamp - <uint64_t>table.base_timestamp))
    body = (
        1 + varint_size(delta) + varint_size(offset_delta) + slice_size(&key)
        + slice_size(&value) + varint_size(zigzag_of(header_count)) + written.scratch.used
    )
    if body > INT32_MAX:
        return b"a record of more than 2^31 bytes"
    whole = varint_size(zigzag_of(body)) + body
    fits[0] = written.taken == 0 or <int64_t>(out.used + whole) <= table.bytes_max
    if not fits[0]:
        return NULL
    if not grow(out, whole):
        return NO_MEMORY
    put_varint(out, zigzag_of(body))
    out.start[out.used] = 0
    out.used += 1
    put_varint(out, delta)
    put_varint(out, offset_delta)
    put_slice(out, &key)
    put_slice(out, &value)
    put_varint(out, zigzag_of(header_count))
    if written.scratch.used:
        put_bytes(out, written.scratch.start, written.scratch.used)
    return NULL


cdef const char* put_records(const Table* table, Written* written) noexcept nogil:
    cdef int64_t place, row, timestamp = table.base_timestamp
    cdef int32_t index
    cdef bint fits = True
    cdef const char* problem
    for place in range(table.first, table.first + table.count):
        row = place
        if table.order != NULL:
            memcpy(&index, table.order + place * sizeof(int32_t), sizeof(int32_t))
            row = index
        written.row = row
        if row < 0 or row >= table.rows:
            return b"there is no such row"
        if table.timestamps != NULL:
            memcpy(&timestamp, table.timestamps + row * sizeof(int64_t), sizeof(int64_t))
        problem = put_record(table, row, timestamp, written, &fits)
        if problem != NULL or not fits:
            return problem
        written.taken += 1
        written.latest = max(written.latest, timestamp)
    return NULL


cdef int open_order(list held, Table* table, object order) except -1:
    cdef Py_ssize_t size = 0
    cdef int64_t end
    if (
        table.rows < 0 or table.first < 0 or table.count < 0 or table.count > INT32_MAX
        or table.first > INT64_MAX - table.count
        or (order is None and table.first + table.count > table.rows)
    ):
        raise ValueError(
            f"rows {table.first} to {<object>table.first + table.count} of {table.rows} "
            "can not be"
        )
    table.order = NULL
    if order is None:
        return 0
    table.order = hold(held, order, &size)
    end = table.first + table.count
    if end > size // <Py_ssize_t>sizeof(int32_t):
        raise ValueError(f"the order has {size // <Py_ssize_t>sizeof(int32_t)} rows, not {end}")
    return 0


cdef int open_columns(list held, Table* table, keys, values, headers, timestamps) except -1:
    cdef Py_ssize_t size = 0
    table.with_keys = keys is not None
    table.with_values = values is not None
    table.with_headers = headers is not None
    table.timestamps = NULL
    if timestamps is not None:
        table.timestamps = hold(held, timestamps, &size)
        size //= <Py_ssize_t>sizeof(int64_t)
        if size < table.rows:
            raise ValueError(f"the timestamps have {size} rows, not {table.rows}")
    if keys is not None:
        open_rows(held, "keys", keys, table.rows, &table.keys)
    if values is not None:
        open_rows(held, "values", values, table.rows, &table.values)
    if headers is not None:
        open_rows(held, "headers", headers, table.rows, &table.lists)
        open_rows(held, "header names", headers.names, 0, &table.names)
        open_rows(held, "header values", headers.values, 0, &table.contents)
    return 0


def encode_columns(
    int64_t rows, keys, values, headers, timestamps, order, int64_t first, int64_t count,
    int64_t base_timestamp, int64_t bytes_max,
):
    """The records of the rows `order[first : first + count]` (int32; None: of these rows).

    Their offset deltas count from 0. Timestamps are int64 in milliseconds (None: all
    `base_timestamp`). Stops before a record with which there were more than `bytes_max` bytes,
    but takes at least one. The bytes, how many rows they hold and their greatest timestamp.
    """
    cdef list held = []
    cdef Table table
    cdef Written written
    cdef const char* problem
    memset(&table, 0, sizeof(Table))
    memset(&written, 0, sizeof(Written))
    table.rows = rows
    table.first = first
    table.count = count
    table.base_timestamp = base_timestamp
    table.bytes_max = bytes_max
    written.latest = INT64_MIN
    open_order(held, &table, order)
    open_columns(held, &table, keys, values, headers, timestamps)
    try:
        with nogil:
            problem = put_records(&table, &written)
        if problem == NO_MEMORY:
            raise MemoryError()
        if problem != NULL:
            raise ValueError(f"row {written.row}: {problem.decode('ascii')}")
        section = PyBytes_FromStringAndSize(<const char*>written.out.start, written.out.used)
        return section, written.taken, written.latest if written.taken else -1
    finally:
        free(written.out.start)
        free(written.scratch.start)


# --- partitions -------------------------------------------------------------------------------


cdef uint32_t[256] CRC32_TABLE


cdef void fill_crc32_table() noexcept:
    cdef uint32_t byte, bit, remainder
    for byte in range(256):
        remainder = byte
        for bit in range(8):
            remainder = (remainder >> 1) ^ (0xEDB88320 if remainder & 1 else 0)
        CRC32_TABLE[byte] = remainder


fill_crc32_table()


cdef int64_t hash_by_crc32(const Slice* key) noexcept nogil:
    cdef uint32_t remainder = <uint32_t>0xFFFFFFFF
    cdef int32_t index
    if key.size == 0:
        return -1
    for index in range(key.size):
        remainder = CRC32_TABLE[(remainder ^ key.start[index]) & 0xFF] ^ (remainder >> 8)
    return <int64_t>(remainder ^ <uint32_t>0xFFFFFFFF)


cdef int64_t hash_by_murmur2(const Slice* key) noexcept nogil:
    """With the seed and the tail of Java's client."""
    cdef uint32_t mixed = <uint32_t>0x9747B28C ^ <uint32_t>key.size
    cdef uint32_t word
    cdef int32_t at = 0
    while key.size - at >= 4:
        memcpy(&word, key.start + at, 4)
        word *= 0x5BD1E995
        word = (word ^ (word >> 24)) * <uint32_t>0x5BD1E995
        mixed = mixed * <uint32_t>0x5BD1E995 ^ word
        at += 4
    if at < key.size:
        word = 0
        memcpy(&word, key.start + at, key.size - at)
        mixed = (mixed ^ word) * <uint32_t>0x5BD1E995
    mixed = (mixed ^ (mixed >> 13)) * <uint32_t>0x5BD1E995
    return (mixed ^ (mixed >> 15)) & INT32_MAX


ctypedef int64_t (*KeyHash)(const Slice*) noexcept nogil


cdef int64_t choose(
    const Elements* keys, int64_t rows, int64_t partitions, KeyHash hash_key, uint8_t* chosen
) noexcept nogil:
    """The row that can not be read, or -1."""
    cdef Slice key
    cdef int64_t row, hashed
    cdef int32_t partition
    for row in range(rows):
        if not find_element(keys, row, &key):
            return row
        partition = -1
        if key.size >= 0:
            hashed = hash_key(&key)
            if hashed >= 0:
                partition = <int32_t>(hashed % partitions)
        memcpy(chosen + row * sizeof(int32_t), &partition, sizeof(int32_t))
    return -1


cdef object partitions_by(keys, int64_t rows, int64_t partitions, KeyHash hash_key):
    cdef list held = []
    cdef Elements elements
    cdef uint8_t* start
    cdef int64_t refused
    if rows < 0 or partitions <= 0 or partitions > INT32_MAX:
        raise ValueError(f"{rows} rows in {partitions} partitions can not be")
    open_rows(held, "keys", keys, rows, &elements)
    chosen = PyByteArray_FromStringAndSize(NULL, rows * sizeof(int32_t))
    start = <uint8_t*>PyByteArray_AS_STRING(chosen)
    with nogil:
        refused = choose(&elements, rows, partitions, hash_key, start)
    if refused >= 0:
        raise ValueError(f"row {refused}: its place in the keys is not within their data")
    return chosen


def partitions_by_murmur2(keys, int64_t rows, int64_t partitions):
    """Where Java's producer puts each key, as int32; -1 for a null one."""
    return partitions_by(keys, rows, partitions, hash_by_murmur2)


def partitions_by_crc32(keys, int64_t rows, int64_t partitions):
    """Where librdkafka's producer puts each key, as int32; -1 for a null or empty one."""
    return partitions_by(keys, rows, partitions, hash_by_crc32)
