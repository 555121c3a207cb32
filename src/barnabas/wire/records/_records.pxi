"""What the compiled codecs share: reading and writing the pieces of a record.

Nothing here trusts the bytes it reads: each read is checked against the end of the record it
belongs to, and each record against the end of the buffer. Functions that read return NULL when
all is well, else what is wrong.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
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


# --- writing ----------------------------------------------------------------------------------


cdef inline bint grow(Sink* sink, size_t size) noexcept nogil:
    """Room for `size` more bytes, if there is; growth doubles, so that copying stays linear."""
    cdef size_t room = sink.room
    cdef void* grown
    if sink.used + size <= room:
        return True
    room = max(room * 2, sink.used + size, <size_t>256)
    grown = realloc(sink.start, room)
    if grown == NULL:
        return False
    sink.start = <uint8_t*>grown
    sink.room = room
    return True


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


cdef inline void put_bytes(Sink* sink, const uint8_t* start, size_t size) noexcept nogil:
    """The caller has reserved the room."""
    memcpy(sink.start + sink.used, start, size)
    sink.used += size
