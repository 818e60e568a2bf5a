# cython: auto_pickle=False
"""Airbyte messages as bytes -> Arrow buffers, without a Python object per record or per value.

`Reader` sends each record to the `TableBuilder` of its stream and stops at every other message, so that the caller gets
it in its position. The parts, from the lowest level up: `json` (grammar), `members` (objects), `decimals` and
`temporal` (texts to numbers), `memory` (buffers), `columns`, `values`, `rows` (building), `base64` and `floats` (long
values), `refusals` (values kept that did not fit), `streams`, `envelope` (messages), `hints` (invalid messages),
`lines` (blocks to lines), `states` (acknowledgement), `ids`. For messages of Protocol Buffers: `protobuf` (fields),
`frames` (blocks to messages), `typed` and `spelled` (values), `messages`; `partitions`.

The parsing runs without the GIL. A reader and its tables belong to one thread at a time.
"""

import os
import time

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.pythread cimport PyThread_allocate_lock
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from destination_deeplake.native.base64 cimport dl_fill_base64
from destination_deeplake.native.columns cimport (
    BOOL,
    INT64,
    JSON,
    Column,
    Field,
    Kind,
    Refusals,
    Table,
    bits,
    is_variable,
    width,
)
from destination_deeplake.native.decimals cimport fill_powers
from destination_deeplake.native.envelope cimport (
    DONE,
    EMBEDDED,
    FULL,
    IGNORED,
    INVALID,
    OUT_OF_MEMORY,
    STATE,
    STATUS,
    STRANGER,
    Message,
    Verdict,
    read_message,
    read_plain_record,
)
from destination_deeplake.native.faults cimport BAD_MESSAGE, NO_SCOPE, TOO_LONG, TRAILING, Fault, dl_reasons
from destination_deeplake.native.frames cimport next_frame
from destination_deeplake.native.hints cimport Hint, hint_at, steers
from destination_deeplake.native.ids cimport ID_BYTES, put_ids
from destination_deeplake.native.json cimport Span
from destination_deeplake.native.lines cimport A_LINE, A_LONG_LINE, NO_LINE, NO_ROOM, Found, Lines, next_line, skip_mark
from destination_deeplake.native.members cimport is_string, member_of
from destination_deeplake.native.memory cimport SLACK, Buffer, FreeList, grow, recycle
from destination_deeplake.native.messages cimport read_frame
from destination_deeplake.native.partitions cimport Partition, forget_partitions
from destination_deeplake.native.protobuf cimport is_utf8
from destination_deeplake.native.rows cimport hash_key
from destination_deeplake.native.states cimport About, Splice, count_splice, describe, read_scope, rejected_count
from destination_deeplake.native.streams cimport Stream, Streams, add_stream, free_streams, name_of, space_of
from destination_deeplake.native.texts cimport bytes_of, span_of, text_of
from destination_deeplake.native.typed cimport blank_newlines

cdef enum:
    MOST_STRANGERS = 1000
    MOST_TALLIES = 100
    MOST_REJECTED = 1 << 20  # maximum number of bytes returned of a line that is not a message

MESSAGE_STATE = <int>STATE
MESSAGE_STATUS = <int>STATUS
MESSAGE_INVALID = <int>INVALID

cdef FreeList pool
memset(&pool, 0, sizeof(pool))
pool.lock = PyThread_allocate_lock()
fill_powers()
dl_fill_base64()


@cython.final
cdef class Block:
    """Memory of a taken batch, readable through the buffer protocol; reused once no object refers to it."""

    cdef Buffer buffer
    cdef Py_ssize_t size

    def __cinit__(self):
        self.buffer.data = NULL

    def __dealloc__(self):
        recycle(&pool, &self.buffer)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.buffer.data, self.size, True, flags)


cdef Block block_of(Buffer* buffer, Py_ssize_t size):
    """Move a buffer into a block."""
    cdef Block block = Block.__new__(Block)
    block.buffer = buffer[0]
    block.size = size
    buffer.data = NULL
    buffer.capacity = 0
    return block


cdef tuple record_ids(Py_ssize_t rows):
    """Return offsets and values of new record ids for the rows, as blocks."""
    cdef Buffer values, offsets
    cdef Py_ssize_t i
    cdef int32_t* edges
    cdef uint8_t* out
    values.data = offsets.data = NULL
    values.capacity = offsets.capacity = 0
    if not grow(&pool, &values, rows * ID_BYTES, 0) or not grow(&pool, &offsets, (rows + 1) * 4, 0):
        recycle(&pool, &values)
        raise MemoryError
    edges = <int32_t*>offsets.data
    out = values.data
    kept = block_of(&offsets, (rows + 1) * 4), block_of(&values, rows * ID_BYTES)
    for i in range(rows + 1):
        edges[i] = <int32_t>(i * ID_BYTES)
    chance = int.from_bytes(os.urandom(10), "little")
    put_ids(out, time.time_ns() // 1_000_000, chance & 0xFFFF, chance >> 16, rows)
    return kept


def repeated(int64_t value, Py_ssize_t rows):
    """Return a block with `rows` copies of an int64."""
    cdef Buffer values
    cdef Py_ssize_t i
    values.data = NULL
    values.capacity = 0
    if not grow(&pool, &values, rows * 8, 0):
        raise MemoryError
    for i in range(rows):
        (<int64_t*>values.data)[i] = value
    return block_of(&values, rows * 8)


@cython.final
cdef class TableBuilder:
    """The growing columns of one stream.

    Parameters
    ----------
    columns
        For each column: the number of its group; its name in the group, None if a group has the same name, and its
        name as a JSON string (UTF-8); a `Kind`; the JSON of its change entry; bytes per item; shape of its values
        (int64 each) or None.
    groups
        Objects whose members have columns, numbered from 1; group 0 is the data. For each group: the number of the
        group that contains it, which is smaller; its name as above, None if it is in no other group; the JSON of its
        change entry; the number of the column that holds the whole object, or -1.
    meta
        The `_airbyte_meta` text of a row without changes, which ends with `]}`.
    files
        Number of the group of `record.file_reference`, which precedes the group of `record.file`; 0 without files.
    keep
        Whether values that do not fit are kept for `take_refused`.
    exact
        Columns whose numbers are kept for `take_numbers` if they may have been rounded.
    fields
        Fields of the schema in the order of the values in records without names: the name as a JSON string (UTF-8),
        and the number of its column, or -1; the numbers of groups follow those of the columns and two more.
    partitioned
        Whether the records of each partition are counted, for `take_partitions`.
    """

    cdef Table table
    cdef list texts  # objects into which the table points

    def __cinit__(
        self,
        columns,
        groups,
        bytes meta not None,
        int files=0,
        bint keep=False,
        exact=(),
        fields=(),
        bint partitioned=False,
    ):
        cdef int i
        cdef Column* column
        cdef Table* table = &self.table
        cdef dict last = {}
        columns = list(columns)
        groups = list(groups)
        memset(table, 0, sizeof(Table))
        table.pool = &pool
        table.count = len(columns)
        table.groups = len(groups)
        table.refusals.wanted = keep
        table.allocated = calloc(table.count + 3 + table.groups, sizeof(Column))
        table.columns = <Column*>((<uintptr_t>table.allocated + 63) & ~<uintptr_t>63)
        table.mask = 3
        while table.mask < 2 * <uint32_t>(table.count + table.groups):
            table.mask = 2 * table.mask + 1
        table.slots = <int32_t*>malloc((table.mask + 1) * sizeof(int32_t))
        if table.allocated == NULL or table.slots == NULL:
            raise MemoryError
        memset(table.slots, 0xFF, (table.mask + 1) * sizeof(int32_t))
        padded = meta + bytes(SLACK)
        never = b"\n\n"  # no key begins so
        self.texts = [columns, groups, padded, never]
        table.meta = <const uint8_t*>PyBytes_AS_STRING(padded)
        table.meta_size = len(meta)
        table.files = self.index_of(files) if files else 0
        for i in range(table.count + 2 + table.groups):
            column = &table.columns[i]
            column.key = <const uint8_t*>PyBytes_AS_STRING(never)
            column.key_size = 2
            column.parent = column.next = column.first = table.count
            column.own = -1
            column.item = 1
        table.columns[table.count].kind = INT64
        table.columns[table.count + 1].kind = JSON
        for i, (group, name, key, kind, change, item, shape) in enumerate(columns):
            column = self.describe(i, group, name, key, change, last)
            column.kind = <Kind>kind
            column.item = item
            column.dimensions = 1
            if shape is not None:
                column.shape = <const int64_t*>PyBytes_AS_STRING(shape)
                column.dimensions = len(<bytes>shape) // 8
        for i in exact:
            if not 0 <= i < table.count:
                raise ValueError("no such column")
            table.columns[i].exact = True
        for i, (group, name, key, change, own) in enumerate(groups):
            column = self.describe(table.count + 2 + i, group, name, key, change, last)
            column.own = own
        self.set_fields(list(fields))
        table.partitioned = partitioned

    cdef set_fields(self, list fields):
        """Describe the fields of records without names."""
        cdef Table* table = &self.table
        cdef Field* field
        cdef int i
        self.texts.append(fields)
        table.fields = <Field*>calloc(len(fields) + 1, sizeof(Field))
        if table.fields == NULL:
            raise MemoryError
        table.field_count = len(fields)
        for i, (key, column) in enumerate(fields):
            if not -1 <= column < table.count + 2 + table.groups:
                raise ValueError("no such column")
            field = &table.fields[i]
            field.key = <const uint8_t*>PyBytes_AS_STRING(key)
            field.key_size = len(<bytes>key)
            field.column = column

    cdef int32_t index_of(self, int group):
        """Return the index of a group among the columns."""
        return self.table.count if group == 0 else self.table.count + 1 + group

    cdef Column* describe(self, int index, int group, bytes name, bytes key, bytes change, dict last) except NULL:
        """Describe a column or a group; enter its name, if any. `last` has the last one described in each group."""
        cdef Column* column = &self.table.columns[index]
        cdef Column* around
        cdef uint32_t slot
        column.parent = self.index_of(group)
        column.change = <const uint8_t*>PyBytes_AS_STRING(change)
        column.change_size = len(change)
        if name is None:
            return column
        column.name = <const uint8_t*>PyBytes_AS_STRING(name)
        column.name_size = len(name)
        column.key = <const uint8_t*>PyBytes_AS_STRING(key)
        column.key_size = len(key)
        around = &self.table.columns[column.parent]
        if group in last:
            self.table.columns[<int>last[group]].next = index
        else:
            around.first = index
        column.next = around.first
        last[group] = index
        slot = hash_key(column.parent, column.name, column.name_size) & self.table.mask
        while self.table.slots[slot] >= 0:
            slot = (slot + 1) & self.table.mask
        self.table.slots[slot] = index
        return column

    def __dealloc__(self):
        cdef int i
        if self.table.allocated != NULL:
            for i in range(self.table.count + 2):
                recycle(&pool, &self.table.columns[i].values)
                recycle(&pool, &self.table.columns[i].offsets)
                recycle(&pool, &self.table.columns[i].validity)
        recycle(&pool, &self.table.scratch)
        free_kept(&self.table.refusals)
        free_kept(&self.table.numbers)
        forget_partitions(&pool, &self.table.partitions)
        free(self.table.fields)
        free(self.table.allocated)
        free(self.table.slots)

    @property
    def rows(self):
        """Number of rows in the table."""
        return self.table.rows

    @property
    def total_rows(self):
        """Number of rows since the table was made."""
        return self.table.total_rows

    @property
    def unknown_fields(self):
        """Number of values whose field has no column."""
        return self.table.unknown_fields

    @property
    def nulled(self):
        """Number of values that became a null and a change entry."""
        return self.table.nulled

    def misfits(self):
        """Return the columns with refused values: number, count of refused values, number of the first such record.

        Columns are numbered as in `take`, groups after them; records from 1, since the table was made.
        """
        cdef Column* column
        cdef int i
        found = []
        for i in range(self.table.count + 2 + self.table.groups):
            column = &self.table.columns[i]
            if column.misfits:
                found.append((i, column.misfits, column.first_misfit))
        return found

    @property
    def rejected(self):
        """Number of lines of the stream that were not valid messages."""
        return self.table.rejected

    def reject(self):
        """Count a line of the stream that was not a valid message."""
        self.table.rejected += 1

    @property
    def nbytes(self):
        """Number of bytes of the rows, record ids and generation included."""
        cdef int64_t rows = self.table.rows
        cdef int64_t total = rows * (ID_BYTES + 4 + 8) + 4
        cdef Column* column
        cdef int i
        if rows == 0:
            return 0
        total += kept_bytes(&self.table.refusals) + kept_bytes(&self.table.numbers)
        for i in range(self.table.count + 2):
            column = &self.table.columns[i]
            if is_variable(column.kind):
                total += 4 * (rows + 1) + <int64_t>(<int32_t*>column.offsets.data)[rows] * column.item
            else:
                total += bits(rows) if column.kind == BOOL else rows * width(column.kind)
            if column.nulls:
                total += bits(rows)
        return total

    cdef tuple take_column(self, Column* column):
        """Move out a column: null count, then validity, offsets and values as blocks or None."""
        cdef int64_t rows = self.table.rows
        cdef size_t size
        validity = offsets = None
        if column.nulls:
            validity = block_of(&column.validity, bits(rows))
        else:
            recycle(&pool, &column.validity)
        nulls = column.nulls
        column.nulls = 0
        if is_variable(column.kind):
            size = <size_t>(<int32_t*>column.offsets.data)[rows] * column.item
            column.hint = size + (size >> 4)
            offsets = block_of(&column.offsets, 4 * (rows + 1))
        elif column.kind == BOOL:
            size = bits(rows)
        else:
            size = rows * width(column.kind)
        return nulls, validity, offsets, block_of(&column.values, size)

    def take(self):
        """Move the rows out and leave the table empty.

        Returns
        -------
        tuple
            For each column, with the extraction time and the meta text after the others: null count, validity, offsets,
            values. Then the record ids in the same form. None if there are no rows.
        """
        cdef int i
        if self.table.rows == 0:
            return None
        for i in range(self.table.count + 2):
            # Arrow rejects a buffer at address 0, which a column without any text has until now.
            if not grow(&pool, &self.table.columns[i].values, 0, 0):
                raise MemoryError
        offsets, values = record_ids(self.table.rows)
        taken = [self.take_column(&self.table.columns[i]) for i in range(self.table.count + 2)]
        taken.append((0, None, offsets, values))
        recycle(&pool, &self.table.scratch)
        self.table.row_hint = self.table.rows + (self.table.rows >> 4)
        self.table.rows = self.table.capacity = 0
        return taken

    def take_refused(self):
        """Move out the values that did not fit, each as the source wrote it.

        Returns
        -------
        tuple
            Number of values; then blocks: row in the batch, line number, column or group (int32), number of bytes of
            the value, offsets of the texts, and the texts, of which long ones are truncated. None if there are none.
        """
        return take_kept(&self.table.refusals)

    def take_numbers(self):
        """Move out the numbers that may have been rounded, in the form of `take_refused`, but never truncated."""
        return take_kept(&self.table.numbers)

    def take_partitions(self):
        """Move out the number of new rows of each partition since the last call, by partition id (UTF-8)."""
        cdef Partition* one
        cdef const char* texts = <const char*>self.table.partitions.texts.data
        cdef int i
        found = {}
        for i in range(self.table.partitions.count):
            one = &(<Partition*>self.table.partitions.items.data)[i]
            found[texts[one.start : one.start + one.size]] = one.rows
        forget_partitions(&pool, &self.table.partitions)
        return found


cdef int64_t kept_bytes(const Refusals* kept) noexcept:
    """Return the number of bytes of kept values."""
    return 32 * kept.count + 4 + (<int32_t*>kept.offsets.data)[kept.count] if kept.count else 0


cdef void free_kept(Refusals* kept) noexcept:
    """Free the memory of kept values."""
    recycle(&pool, &kept.rows)
    recycle(&pool, &kept.lines)
    recycle(&pool, &kept.columns)
    recycle(&pool, &kept.sizes)
    recycle(&pool, &kept.offsets)
    recycle(&pool, &kept.texts)


cdef tuple take_kept(Refusals* kept):
    """Move kept values out; None if there are none."""
    cdef Py_ssize_t n = kept.count
    cdef Py_ssize_t size
    if n == 0:
        return None
    kept.count = 0
    size = (<int32_t*>kept.offsets.data)[n]
    return (
        n,
        block_of(&kept.rows, 8 * n),
        block_of(&kept.lines, 8 * n),
        block_of(&kept.columns, 4 * n),
        block_of(&kept.sizes, 8 * n),
        block_of(&kept.offsets, 4 * (n + 1)),
        block_of(&kept.texts, size),
    )


@cython.final
cdef class Reader:
    """Reads blocks of messages into tables, up to the next message that is not a record.

    Parameters
    ----------
    tables
        Namespace (empty for none), stream name (both UTF-8), and the table for the records of that stream.
    protobuf
        Whether the messages are Protocol Buffers, each after its length, instead of lines of JSON.
    """

    cdef Streams streams
    cdef Lines lines
    cdef Message message
    cdef About about
    cdef list tables
    cdef dict tally
    cdef Py_buffer view
    cdef readonly bint attached
    cdef int64_t other_strangers
    cdef readonly int64_t source_errors
    cdef bint protobuf
    cdef bint embedded  # the line of `lines` is JSON from a message of Protocol Buffers
    cdef Buffer text  # the embedded line
    cdef bint ended  # the input ended inside a message

    def __cinit__(self, tables, bint protobuf=False):
        memset(&self.streams, 0, sizeof(Streams))
        memset(&self.lines, 0, sizeof(Lines))
        self.streams.pool = self.lines.pool = &pool
        self.streams.last = -1
        self.protobuf = protobuf
        self.embedded = self.ended = False
        self.text.data = NULL
        self.text.capacity = 0
        self.tables = list(tables)
        self.tally = {}
        for space, name, table in self.tables:
            self.register(span_of(space), span_of(name), table)

    def __dealloc__(self):
        free_streams(&self.streams)
        recycle(&pool, &self.lines.carry)
        recycle(&pool, &self.text)
        if self.attached:
            PyBuffer_Release(&self.view)

    cdef Stream* register(self, Span space, Span name, TableBuilder table) except NULL:
        """Register a stream; without a table, its records are only counted."""
        cdef Stream* stream = add_stream(&self.streams, space, name, NULL if table is None else &table.table)
        if stream == NULL:
            raise MemoryError
        return stream

    @property
    def line_number(self):
        """Number of the last line that was read, from 1."""
        return self.lines.number

    def attach(self, block):
        """Take the next block; it must stay unchanged until `detach`."""
        if self.attached:
            raise RuntimeError("the previous block was not read to its end")
        PyObject_GetBuffer(block, &self.view, PyBUF_SIMPLE)
        self.attached = True
        self.lines.at = <const uint8_t*>self.view.buf
        self.lines.stop = self.lines.at + self.view.len

    def detach(self):
        """Release the block."""
        if self.attached:
            self.lines.at = self.lines.stop = NULL
            self.attached = False
            PyBuffer_Release(&self.view)

    cdef Verdict run(self, bint last) noexcept nogil:
        """Read records until the block is used up (DONE) or a line needs another action."""
        cdef Lines* lines = &self.lines
        cdef Verdict verdict
        cdef Found found
        while True:
            found = next_line(lines, last)
            self.streams.line = lines.number
            if lines.number == 1 and found == A_LINE:
                skip_mark(lines)
            if found != A_LINE:
                self.message.fault.reason = TOO_LONG
                return INVALID if found == A_LONG_LINE else OUT_OF_MEMORY if found == NO_ROOM else DONE
            if not read_plain_record(&self.streams, lines.line, lines.end, lines.lim):
                verdict = read_message(&self.streams, lines.line, lines.end, lines.lim, &self.message)
                if verdict != DONE:
                    return verdict

    cdef Verdict run_messages(self, bint last) noexcept nogil:
        """Do the same with messages of Protocol Buffers."""
        cdef Lines* lines = &self.lines
        cdef Verdict verdict
        cdef Found found
        cdef Span text
        while True:
            self.embedded = False
            found = next_frame(lines)
            self.streams.line = lines.number
            if found != A_LINE:
                self.message.fault.reason = TOO_LONG
                if found == NO_LINE and last and lines.carried:
                    self.message.fault.reason = BAD_MESSAGE
                    self.ended = True
                    return INVALID
                return INVALID if found == A_LONG_LINE else OUT_OF_MEMORY if found == NO_ROOM else DONE
            verdict = read_frame(&self.streams, lines.line, lines.end, lines.lim, &self.message)
            if verdict == EMBEDDED:
                text = self.message.body
                if not grow(&pool, &self.text, text.end - text.start + 1, 0):
                    return OUT_OF_MEMORY
                memcpy(self.text.data, text.start, text.end - text.start)
                lines.line = self.text.data
                lines.end = lines.line + (text.end - text.start)
                lines.lim = lines.line + self.text.capacity
                self.text.data[lines.end - lines.line] = c"\n"
                blank_newlines(self.text.data, lines.end)
                self.embedded = True
                verdict = read_message(&self.streams, lines.line, lines.end, lines.lim, &self.message)
            if verdict != DONE:
                return verdict

    def advance(self, bint last=False):
        """Read up to the next message that is not a record.

        Parameters
        ----------
        last
            Whether the input ends with the block, so that a line without a newline counts.

        Returns
        -------
        int
            MESSAGE_STATE, MESSAGE_STATUS or MESSAGE_INVALID; 0 if the block is used up.

        Raises
        ------
        OverflowError
            If a text column of a table would reach 2 GiB.
        """
        cdef Verdict verdict
        while True:
            with nogil:
                verdict = self.run_messages(last) if self.protobuf else self.run(last)
            if verdict == STATE and not read_scope(self.message.body, self.lines.lim, &self.about):
                self.message.fault.reason = NO_SCOPE
                verdict = INVALID
            elif verdict == STATUS and not self.read_status():
                verdict = IGNORED
            if verdict == STRANGER:
                self.meet()
            elif verdict == IGNORED:
                self.ignore()
            elif verdict == OUT_OF_MEMORY:
                raise MemoryError("no memory for more rows: take them from the tables sooner")
            elif verdict == FULL:
                raise OverflowError("no room for this row: take rows before a text column reaches 2 GiB")
            else:
                return <int>verdict

    cdef Span status_member(self, const char* name, size_t n) noexcept:
        """Return a member of `trace.stream_status`."""
        cdef Span status = member_of(self.message.body, b"stream_status", 13, self.lines.lim)
        return member_of(status, name, n, self.lines.lim)

    cdef bint read_status(self) noexcept:
        """Read the stream of a stream status; False if the status is malformed."""
        return is_string(self.status_member(b"status", 6)) and describe(
            self.status_member(b"stream_descriptor", 17), self.lines.lim, &self.about
        )

    cdef meet(self):
        """Count a record of a stream that has no table; remember the stream unless there are too many."""
        if self.streams.strangers < MOST_STRANGERS:
            self.register(self.message.space, self.message.stream, None).ignored = 1
        else:
            self.other_strangers += 1

    cdef ignore(self):
        """Count a message of a type that is ignored."""
        kind = text_of(self.message.type)
        if kind == "TRACE":
            kind = f"TRACE {text_of(member_of(self.message.body, b'type', 4, self.lines.lim)) or ''}".rstrip()
            self.source_errors += kind == "TRACE ERROR"
        what = f"{kind[:64]} messages"
        self.count(what if what in self.tally or len(self.tally) < MOST_TALLIES else "other messages")

    cdef count(self, str what):
        """Count something that was ignored."""
        self.tally[what] = self.tally.get(what, 0) + 1

    def strangers(self):
        """Return the number of records of each stream without a table, and of those beyond MOST_STRANGERS."""
        cdef Stream* stream
        counts = {}
        if self.streams.strangers:
            for i in range(self.streams.count):
                stream = &self.streams.items[i]
                if stream.ignored:
                    space, name = bytes_of(space_of(stream)), bytes_of(name_of(stream))
                    counts[space.decode("utf-8", "surrogatepass"), name.decode("utf-8", "surrogatepass")] = stream.ignored
        return counts, self.other_strangers

    def ignored(self):
        """Return the numbers of ignored records by stream, and of ignored messages by type."""
        counts = dict(self.tally)
        strangers, others = self.strangers()
        for key, records in strangers.items():
            counts[f"records of unknown stream {'.'.join(filter(None, key))}"] = records
        if others:
            counts["records of other unknown streams"] = others
        return counts

    def reason(self):
        """Return why the line of MESSAGE_INVALID is invalid, without its content."""
        cdef Fault* fault = &self.message.fault
        if self.ended:
            return "ends inside a message"
        text = dl_reasons[<int>fault.reason].decode("ascii")
        if fault.reason > TRAILING:
            return text
        if fault.at == self.lines.end:
            return "ends inside a JSON value"
        return f"{text} at byte {fault.at - self.lines.line}"

    def rejected(self):
        """Return what is known about the line of MESSAGE_INVALID.

        Returns
        -------
        tuple
            Whether it may be a STATE or a stream status; its type; name of the stream and namespace ("" for null),
            None if unknown; whether the record was read to its end, and whether records have their namespace after
            their data; the beginning of the line; the number of bytes that were read of it.
        """
        cdef Hint hint
        cdef Span line
        line.start = self.lines.line
        line.end = self.lines.end
        if self.protobuf and not self.embedded:
            return self.rejected_record(line)
        hint_at(line.start, self.lines.lim, &hint)
        steering = steers(&hint, line.start, line.end)
        size = line.end - line.start
        line.end = line.start + min(size, <Py_ssize_t>MOST_REJECTED)
        return (
            steering,
            text_of(hint.type),
            text_of(hint.name),
            "" if hint.space.start != NULL and hint.space.start[0] == c"n" else text_of(hint.space),
            hint.ended,
            self.streams.late,
            bytes_of(line),
            size,
        )

    cdef tuple rejected_record(self, Span bytes):
        """Do the same for a message of Protocol Buffers."""
        cdef Message* message = &self.message
        if self.ended or message.fault.reason == TOO_LONG:  # the start of the next message is unknown
            return True, None, None, None, False, False, b"", 0
        # A message that does not begin like a record may have been a STATE.
        steering = bytes.start == bytes.end or bytes.start[0] != c"\n"
        name = space = None
        if message.stream.start != NULL and is_utf8(message.stream.start, message.stream.end):
            name = bytes_of(message.stream).decode()
            if is_utf8(message.space.start, message.space.end):
                space = bytes_of(message.space).decode()
        size = bytes.end - bytes.start
        bytes.end = bytes.start + min(size, <Py_ssize_t>MOST_REJECTED)
        return steering, "RECORD", name, space, True, False, bytes_of(bytes), size

    def partition(self):
        """Return the partition of the record of MESSAGE_INVALID; None if it is unknown."""
        cdef Message* message = &self.message
        if not self.protobuf or self.embedded or self.ended or message.stream.start == NULL:
            return None
        return bytes_of(message.partition)

    def state(self):
        """Return the line of MESSAGE_STATE, its scope, and the positions for counts in it.

        Returns
        -------
        tuple
            Line; scope (0 stream, 1 global, 2 legacy); namespace; name; start and end of the part that the count
            replaces; the texts to write before and after the count; start and end of the existing count of rejected
            records, -1 without one.
        """
        cdef Splice splice = count_splice(self.message.body, self.lines.lim)
        cdef Span rejected = rejected_count(self.message.body, self.lines.lim)
        cdef Span line
        line.start = self.lines.line
        line.end = self.lines.end
        return (
            bytes_of(line),
            <int>self.about.scope,
            text_of(self.about.space) or None,
            text_of(self.about.name),
            splice.cut.start - line.start,
            splice.cut.end - line.start,
            <bytes>splice.before,
            <bytes>splice.after,
            rejected.start - line.start if rejected.start != NULL else -1,
            rejected.end - line.start if rejected.start != NULL else -1,
        )

    def status(self):
        """Return namespace, name and status of MESSAGE_STATUS."""
        return (
            text_of(self.about.space) or None,
            text_of(self.about.name),
            text_of(self.status_member(b"status", 6)),
        )
