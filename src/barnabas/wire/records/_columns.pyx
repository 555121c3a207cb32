# cython: language_level=3, cdivision=True
"""Records as columns, compiled. `_columns_np.py` is its twin, `layout.py` describes the columns.

The loops run without the GIL and trust neither the records nor the columns they read. What one
function has checked another does not read again, as the memory may be somebody else's to change.
"""

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBuffer_FillInfo,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memset

from barnabas.wire.records.layout import COLUMN_BYTES_MAX, Nested, Taken, Variable

include "_records.pxi"
include "_columns_write.pxi"

cdef const char* FULL_KEYS = b"keys"
cdef const char* FULL_VALUES = b"values"
cdef const char* FULL_NAMES = b"header names"
cdef const char* FULL_CONTENTS = b"header values"
cdef const char* FULL_LISTS = b"headers"

cdef int64_t MILLIS_MAX = INT64_MAX // 1000


# --- what is gathered -------------------------------------------------------------------------


cdef class Block:
    """Memory that whoever looks at it keeps alive."""

    cdef uint8_t* start
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.start)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.start, self.size, 1, flags)


cdef object given(Sink* sink, size_t size):
    """The first `size` bytes of a sink, which is empty then: others own the memory."""
    cdef Block block = Block.__new__(Block)
    cdef void* fitted = realloc(sink.start, max(size, <size_t>1))
    if fitted == NULL:
        raise MemoryError()
    block.start = <uint8_t*>fitted
    block.size = size
    sink[0] = Sink(NULL, 0, 0)
    return memoryview(block)


cdef struct Column:
    Py_ssize_t count
    Py_ssize_t nulls
    Sink ends       # int32
    Sink data
    # All the room there is holds ones, so that only a null has to be written.
    Sink bits


cdef bint make_room(Column* column, Py_ssize_t more) noexcept nogil:
    """For `more` elements; their data finds room by itself."""
    cdef size_t bits = (column.count + more + 7) // 8
    cdef size_t before = column.bits.room
    if not grow(&column.ends, more * sizeof(int32_t)):
        return False
    if bits > before:
        column.bits.used = before
        if not grow(&column.bits, bits - before):
            return False
        memset(column.bits.start + before, 0xFF, column.bits.room - before)
    return True


cdef inline void close_element(Column* column, size_t end, bint null) noexcept nogil:
    """The caller has made room."""
    cdef int32_t narrow = <int32_t>end
    if null:
        column.bits.start[column.count >> 3] &= <uint8_t>~(1 << (column.count & 7))
        column.nulls += 1
    memcpy(column.ends.start + column.ends.used, &narrow, sizeof(int32_t))
    column.ends.used += sizeof(int32_t)
    column.count += 1


cdef inline const char* put_element(
    Column* column, const Slice* field, size_t limit, const char* full
) noexcept nogil:
    """The caller has made room."""
    if field.size > 0:
        if <size_t>field.size > limit - column.data.used:
            return full
        if not grow(&column.data, field.size):
            return NO_MEMORY
        put_bytes(&column.data, field.start, field.size)
    close_element(column, column.data.used, field.size < 0)
    return NULL


cdef void cut_back(Column* column, const Column* before) noexcept nogil:
    """To what it was; the room it has got since stays."""
    cdef size_t byte = before.count >> 3
    if column.nulls > before.nulls:
        column.bits.start[byte] |= <uint8_t>(0xFF << (before.count & 7))
        memset(column.bits.start + byte + 1, 0xFF, column.bits.room - byte - 1)
    column.count = before.count
    column.nulls = before.nulls
    column.ends.used = before.ends.used
    column.data.used = before.data.used


cdef void free_column(Column* column) noexcept:
    free(column.ends.start)
    free(column.data.start)
    free(column.bits.start)


cdef int begin_column(Column* column) except -1:
    """Empty, but for the zero with which the offsets begin."""
    memset(column, 0, sizeof(Column))
    if not grow(&column.ends, sizeof(int32_t)):
        raise MemoryError()
    memset(column.ends.start, 0, sizeof(int32_t))
    column.ends.used = sizeof(int32_t)
    return 0


cdef object given_bits(Column* column):
    if not column.nulls:
        return None
    if column.count & 7:
        column.bits.start[column.count >> 3] &= <uint8_t>((1 << (column.count & 7)) - 1)
    return given(&column.bits, (column.count + 7) // 8)


cdef object given_variable(Column* column):
    return Variable(
        given_bits(column),
        given(&column.ends, column.ends.used),
        given(&column.data, column.data.used),
    )


# --- reading ----------------------------------------------------------------------------------


cdef struct Batch:
    Py_ssize_t count
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    int64_t first
    int64_t end


cdef struct Columns:
    bint with_keys
    bint with_values
    bint with_headers
    size_t limit
    Py_ssize_t rows
    Sink offsets
    Sink timestamps
    Column keys
    Column values
    Column lists
    Column names
    Column contents


cdef inline int64_t as_micros(int64_t millis) noexcept nogil:
    if millis > MILLIS_MAX:
        return INT64_MAX
    if millis < -MILLIS_MAX:
        return INT64_MIN
    return millis * 1000


cdef inline void put_int64(Sink* sink, int64_t number) noexcept nogil:
    """The caller has reserved the room."""
    memcpy(sink.start + sink.used, &number, sizeof(int64_t))
    sink.used += sizeof(int64_t)


cdef const char* put_list(Columns* columns, Fields* fields) noexcept nogil:
    cdef Slice name, value
    cdef int32_t index
    cdef const char* problem
    if <size_t>fields.header_count > columns.limit - columns.names.count:
        return FULL_LISTS
    if not make_room(&columns.names, fields.header_count):
        return NO_MEMORY
    if not make_room(&columns.contents, fields.header_count):
        return NO_MEMORY
    for index in range(fields.header_count):
        problem = read_header(&fields.headers, &name, &value)
        if problem == NULL:
            problem = put_element(&columns.names, &name, columns.limit, FULL_NAMES)
        if problem == NULL:
            problem = put_element(&columns.contents, &value, columns.limit, FULL_CONTENTS)
        if problem != NULL:
            return problem
    close_element(&columns.lists, columns.names.count, fields.header_count == 0)
    return NULL


cdef inline const char* put_row(
    Columns* columns, Fields* fields, const Batch* batch
) noexcept nogil:
    cdef const char* problem = NULL
    cdef int64_t timestamp = batch.append_time
    if timestamp == -1:
        # Wraps, as other implementations do; unsigned, because signed overflow is undefined.
        timestamp = <int64_t>(
            <uint64_t>batch.base_timestamp + <uint64_t>fields.timestamp_delta
        )
    put_int64(&columns.offsets, batch.base_offset + fields.offset_delta)
    put_int64(&columns.timestamps, as_micros(timestamp))
    columns.rows += 1
    if columns.with_keys:
        problem = put_element(&columns.keys, &fields.key, columns.limit, FULL_KEYS)
    if problem == NULL and columns.with_values:
        problem = put_element(&columns.values, &fields.value, columns.limit, FULL_VALUES)
    if problem == NULL and columns.with_headers:
        problem = put_list(columns, fields)
    return problem


cdef bint make_room_for_rows(Columns* columns, Py_ssize_t more) noexcept nogil:
    return (
        grow(&columns.offsets, more * sizeof(int64_t))
        and grow(&columns.timestamps, more * sizeof(int64_t))
        and (not columns.with_keys or make_room(&columns.keys, more))
        and (not columns.with_values or make_room(&columns.values, more))
        and (not columns.with_headers or make_room(&columns.lists, more))
    )


cdef const char* put_batch(
    Columns* columns, Cursor* cursor, const Batch* batch, Py_ssize_t* index
) noexcept nogil:
    cdef Fields fields
    cdef Cursor headers
    cdef int32_t previous = -1
    cdef int64_t offset
    cdef int64_t last = INT64_MAX - batch.base_offset if batch.base_offset > 0 else INT64_MAX
    cdef const char* problem
    if not make_room_for_rows(columns, batch.count):
        return NO_MEMORY
    while index[0] < batch.count:
        problem = read_fields(cursor, &fields)
        if problem == NULL and fields.header_count:
            headers = fields.headers
            problem = skip_headers(&fields)
            fields.headers = headers
        if problem == NULL:
            problem = check_offset(fields.offset_delta, previous, last)
        if problem != NULL:
            return problem
        previous = fields.offset_delta
        offset = batch.base_offset + fields.offset_delta
        if batch.first <= offset < batch.end:
            problem = put_row(columns, &fields, batch)
            if problem != NULL:
                return problem
        index[0] += 1
    return NULL


cdef int refuse_batch(const char* problem, Py_ssize_t index, size_t limit) except -1:
    if problem == NO_MEMORY:
        raise MemoryError()
    if problem == FULL_LISTS:
        raise OverflowError(f"no more than {limit} headers: take() them first")
    if (
        problem == FULL_KEYS or problem == FULL_VALUES
        or problem == FULL_NAMES or problem == FULL_CONTENTS
    ):
        raise OverflowError(
            f"a column of {problem.decode('ascii')} has no room for more than {limit} bytes: "
            "take() what is there first"
        )
    refuse(problem, index)


cdef class ColumnDecoder:
    """Gathers the records of many batches into one set of columns.

    No column takes more than `column_bytes_max` bytes: OverflowError asks for a take() before.
    """

    cdef Columns columns
    cdef bint busy

    def __cinit__(self, *, bint keys, bint values, bint headers, column_bytes_max=None):
        limit = COLUMN_BYTES_MAX if column_bytes_max is None else column_bytes_max
        if not 0 <= limit <= COLUMN_BYTES_MAX:
            raise ValueError(f"a column has at most {COLUMN_BYTES_MAX} bytes")
        self.columns.limit = limit
        self.columns.with_keys = keys
        self.columns.with_values = values
        self.columns.with_headers = headers
        self.begin()

    cdef int begin(self) except -1:
        self.columns.rows = 0
        begin_column(&self.columns.keys)
        begin_column(&self.columns.values)
        begin_column(&self.columns.lists)
        begin_column(&self.columns.names)
        begin_column(&self.columns.contents)
        return 0

    cdef void release(self) noexcept:
        free(self.columns.offsets.start)
        free(self.columns.timestamps.start)
        self.columns.offsets = Sink(NULL, 0, 0)
        self.columns.timestamps = Sink(NULL, 0, 0)
        free_column(&self.columns.keys)
        free_column(&self.columns.values)
        free_column(&self.columns.lists)
        free_column(&self.columns.names)
        free_column(&self.columns.contents)

    def __dealloc__(self):
        self.release()

    @property
    def rows(self):
        """Gathered since the last take()."""
        return self.columns.rows

    @property
    def size(self):
        """Bytes of keys, values and headers gathered since the last take()."""
        return (
            self.columns.keys.data.used + self.columns.values.data.used
            + self.columns.names.data.used + self.columns.contents.data.used
        )

    cdef int enter(self) except -1:
        if self.busy:
            raise RuntimeError("a decoder is for one thread at a time")
        self.busy = True
        return 0

    def add(
        self, data, Py_ssize_t count, int64_t base_offset, int64_t base_timestamp,
        int64_t append_time, int64_t first, int64_t end,
    ):
        """Keep the records of one batch with `first` <= offset < `end`; how many these are.

        `data` is exactly `count` records, decompressed. `append_time`, unless -1, is every
        record's timestamp. On an error nothing of the batch is kept.
        """
        cdef Py_buffer view
        cdef Batch batch = Batch(count, base_offset, base_timestamp, append_time, first, end)
        cdef Columns before
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.enter()
            before = self.columns
            try:
                self.add_view(&view, &batch)
                self.mend_names(before.names.count)
            except BaseException:
                self.restore(&before)
                raise
            finally:
                self.busy = False
            return self.columns.rows - before.rows
        finally:
            PyBuffer_Release(&view)

    cdef int add_view(self, Py_buffer* view, const Batch* batch) except -1:
        cdef Cursor cursor
        cdef const char* problem
        cdef Py_ssize_t index = 0
        check_count(batch.count, view.len)
        cursor.at = <const uint8_t*>view.buf
        cursor.end = cursor.at + view.len
        with nogil:
            problem = put_batch(&self.columns, &cursor, batch, &index)
        if problem != NULL:
            refuse_batch(problem, index, self.columns.limit)
        return check_end(&cursor, batch.count)

    cdef void restore(self, const Columns* before) noexcept:
        self.columns.rows = before.rows
        self.columns.offsets.used = before.offsets.used
        self.columns.timestamps.used = before.timestamps.used
        cut_back(&self.columns.keys, &before.keys)
        cut_back(&self.columns.values, &before.values)
        cut_back(&self.columns.lists, &before.lists)
        cut_back(&self.columns.names, &before.names)
        cut_back(&self.columns.contents, &before.contents)

    cdef int mend_names(self, Py_ssize_t first) except -1:
        """As other clients read them: what is not UTF-8 becomes replacement characters."""
        cdef Column* names = &self.columns.names
        cdef int32_t* ends = <int32_t*>names.ends.start
        cdef size_t begin = ends[first]
        cdef Py_ssize_t index
        cdef list mended = []
        if is_ascii(names.data.start + begin, names.data.used - begin):
            return 0
        for index in range(first, names.count):
            text = PyUnicode_DecodeUTF8(
                <const char*>names.data.start + ends[index],
                ends[index + 1] - ends[index], "replace",
            )
            mended.append(text.encode())
        if begin + <size_t>sum(map(len, mended)) > self.columns.limit:
            refuse_batch(FULL_NAMES, 0, self.columns.limit)
        names.data.used = begin
        for index, name in enumerate(mended, first):
            if not grow(&names.data, len(name)):
                raise MemoryError()
            put_bytes(&names.data, <const uint8_t*><const char*>name, len(name))
            ends[index + 1] = <int32_t>names.data.used
        return 0

    def take(self):
        """All that was gathered, and start again."""
        cdef Columns* columns = &self.columns
        cdef Columns before
        self.enter()
        before = columns[0]
        try:
            return Taken(
                before.rows,
                given(&columns.offsets, columns.offsets.used),
                given(&columns.timestamps, columns.timestamps.used),
                given_variable(&columns.keys) if columns.with_keys else None,
                given_variable(&columns.values) if columns.with_values else None,
                self.given_headers() if columns.with_headers else None,
            )
        finally:
            self.release()
            self.begin()
            self.expect(&before)
            self.busy = False

    cdef void expect(self, const Columns* before) noexcept:
        """Room for as much as the last time: without it there is only more copying."""
        make_room_for_rows(&self.columns, before.rows)
        grow(&self.columns.keys.data, before.keys.data.used)
        grow(&self.columns.values.data, before.values.data.used)

    cdef object given_headers(self):
        return Nested(
            given_bits(&self.columns.lists),
            given(&self.columns.lists.ends, self.columns.lists.ends.used),
            given_variable(&self.columns.names),
            given_variable(&self.columns.contents),
        )


cdef bint is_ascii(const uint8_t* at, size_t size) noexcept nogil:
    cdef uint8_t seen = 0
    cdef size_t index
    for index in range(size):
        seen |= at[index]
    return seen < 0x80
