"""One message of Protocol Buffers -> a record in its table.

The values of a record have no names: they are in the order of the fields of their stream. A record is read in one
pass, its values straight into the columns. If a value needs the rules of JSON, the row is dropped and the whole record
is written as JSON, which `rows` reads.

    AirbyteMessage    record = 1, airbyte_protocol_message = 2 (JSON of any other message), probe = 3
    record            stream_namespace = 1, stream_name = 2, emitted_at_ms = 3, partition_id = 4, data = 5, meta = 6
    meta              changes = 1: field = 1, change = 2, reason = 3
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from destination_deeplake.native.columns cimport (
    NO_TROUBLE,
    TOO_LARGE,
    Column,
    Field as TableField,
    Table,
    begin_row,
    drop_row,
)
from destination_deeplake.native.envelope cimport (
    DONE,
    FULL,
    EMBEDDED,
    INVALID,
    NO_TEXT,
    OUT_OF_MEMORY,
    STRANGER,
    Message,
    Verdict,
)
from destination_deeplake.native.faults cimport BAD_MESSAGE, BAD_TEXT, BAD_VALUE, NO_STREAM, OTHER_COUNT, Fault, Reason
from destination_deeplake.native.json cimport Span
from destination_deeplake.native.memory cimport Buffer
from destination_deeplake.native.protobuf cimport LENGTH, VARINT, Field, is_utf8, read_field, read_varint
from destination_deeplake.native.rows cimport Record, finish_row, read_data
from destination_deeplake.native.spelled cimport Text, add, add_string, add_value, add_word
from destination_deeplake.native.streams cimport Streams, find_stream
from destination_deeplake.native.typed cimport (
    BROKEN,
    IN_TROUBLE,
    NULL_,
    SCATTERED,
    STORED,
    UNSET,
    UNUSUAL,
    Cell,
    Value,
    put_plain,
    put_typed,
    read_typed,
)


cdef enum Part:  # the field numbers of a record
    NAMESPACE = 1
    NAME
    EMITTED
    PARTITION
    DATA
    META


cdef enum:
    OTHER_CHANGE = 2  # and above
    OTHER_REASON = 11


cdef extern from *:
    """
    static const char *const dl_change_names[3] = {"NULLED", "TRUNCATED", "UNKNOWN"};
    static const char *const dl_reason_names[12] = {
        "SOURCE_RECORD_SIZE_LIMITATION", "DESTINATION_RECORD_SIZE_LIMITATION", "PLATFORM_RECORD_SIZE_LIMITATION",
        "SOURCE_FIELD_SIZE_LIMITATION", "DESTINATION_FIELD_SIZE_LIMITATION", "PLATFORM_FIELD_SIZE_LIMITATION",
        "SOURCE_SERIALIZATION_ERROR", "DESTINATION_SERIALIZATION_ERROR", "PLATFORM_SERIALIZATION_ERROR",
        "SOURCE_RETRIEVAL_ERROR", "DESTINATION_TYPECAST_ERROR", "UNKNOWN"};
    """
    const char** dl_change_names
    const char** dl_reason_names


cdef struct Typing:  # the record that is being read
    Span space
    Span name
    Span partition
    Span meta  # the message `meta`, absent if the record has none
    uint64_t emitted
    const uint8_t* data  # start of the first value, or the end
    const uint8_t* end
    const uint8_t* lim


cdef inline Span between(const uint8_t* start, const uint8_t* end) noexcept nogil:
    """Return a new span: copying a span right after it was written takes twice as long."""
    cdef Span span
    span.start = start
    span.end = end
    return span


cdef inline bint read_head(const uint8_t* p, Typing* record, bint whole) noexcept nogil:
    """Read the fields of a record up to its first value, or all of them; False if the record is invalid."""
    cdef Field field
    cdef const uint8_t* start
    record.space.start = record.space.end = record.partition.start = record.partition.end = NO_TEXT
    record.name.start = record.meta.start = NULL
    record.emitted = 0
    record.data = NULL
    while p < record.end:
        if p[0] == DATA << 3 | LENGTH and not whole:
            record.data = p
            return True
        start = p
        p = read_field(p, record.end, &field)
        if p == NULL:
            return False
        if field.number == EMITTED:
            if field.type == VARINT:
                record.emitted = field.value
        elif field.type != LENGTH:
            continue
        elif field.number == NAMESPACE:
            record.space = between(field.bytes.start, p)
        elif field.number == NAME:
            record.name = between(field.bytes.start, p)
        elif field.number == PARTITION:
            record.partition = between(field.bytes.start, p)
        elif field.number == META:
            record.meta = field.bytes
        elif field.number == DATA and record.data == NULL:
            record.data = start
    if record.data == NULL:
        record.data = record.end
    return True


cdef inline Cell read_values(Table* table, Typing* record, Buffer* room, Reason* reason) noexcept nogil:
    """Read the values into the row that was begun; UNUSUAL if the record must be read in another way."""
    cdef const uint8_t* p = record.data
    cdef const uint8_t* end
    cdef Field field
    cdef Value value
    cdef Column* column
    cdef Cell cell
    cdef uint64_t size
    cdef int32_t at = 0
    cdef int32_t index
    table.level = table.whole = 0
    while p < record.end:
        if p[0] != DATA << 3 | LENGTH:
            end = read_field(p, record.end, &field)
            if end == NULL:
                reason[0] = BAD_MESSAGE
                return BROKEN
            if field.number == META and field.type == LENGTH:
                record.meta = field.bytes
            elif field.number <= PARTITION:
                return SCATTERED
            p = end
            continue
        p = read_varint(p + 1, record.end, &size)
        if p == NULL or size > <uint64_t>(record.end - p):
            reason[0] = BAD_MESSAGE
            return BROKEN
        end = p + size
        if at == table.field_count:
            reason[0] = OTHER_COUNT
            return BROKEN
        index = table.fields[at].column
        at += 1
        if 0 <= index < table.count and p != end:
            column = &table.columns[index]
            column.seen = table.serial
            table.present += 1
            if put_plain(table, column, p, end, record.lim, reason):
                p = end
                continue
            table.present -= 1
        if not read_typed(p, end, &value):
            reason[0] = BAD_MESSAGE
            return BROKEN
        p = end
        if index >= table.count:  # a group
            if value.kind != UNSET and value.kind != NULL_:
                return UNUSUAL
        elif index >= 0:
            column = &table.columns[index]
            column.seen = table.serial
            table.present += 1
            cell = put_typed(table, column, &value, room, record.lim, reason)
            if cell != STORED:
                return cell
    if at != table.field_count and at != 0:
        reason[0] = OTHER_COUNT
        return BROKEN
    return UNUSUAL if table.refused or table.rounded else STORED


cdef inline bint spell_changes(Text* text, Span meta) noexcept nogil:
    """Write the `meta` of a record as JSON; False if it is invalid."""
    cdef const uint8_t* p = meta.start
    cdef const uint8_t* q
    cdef Field field, part
    cdef Span name
    cdef uint64_t change, reason
    cdef bint first = True
    add_word(text, b'{"changes":[')
    while p < meta.end:
        p = read_field(p, meta.end, &field)
        if p == NULL:
            return False
        if field.number != 1 or field.type != LENGTH:
            continue
        change = reason = 0
        name.start = name.end = NO_TEXT
        q = field.bytes.start
        while q < field.bytes.end:
            q = read_field(q, field.bytes.end, &part)
            if q == NULL:
                return False
            if part.number == 1 and part.type == LENGTH:
                name = part.bytes
            elif part.number == 2 and part.type == VARINT:
                change = part.value
            elif part.number == 3 and part.type == VARINT:
                reason = part.value
        if not is_utf8(name.start, name.end):
            return False
        add_word(text, b'{"field":' if first else b',{"field":')
        first = False
        add_string(text, name)
        add_word(text, b',"change":"')
        add_word(text, dl_change_names[min(change, <uint64_t>OTHER_CHANGE)])
        add_word(text, b'","reason":"')
        add_word(text, dl_reason_names[min(reason, <uint64_t>OTHER_REASON)])
        add_word(text, b'"}')
    add_word(text, b"]}")
    return True


cdef inline Cell spell_values(Table* table, Typing* record, Text* text, Reason* reason) noexcept nogil:
    """Write the values of a record as a JSON object, without the values of fields that have no column."""
    cdef const uint8_t* p = record.data
    cdef Field field
    cdef Value value
    cdef const TableField* known
    cdef int32_t at = 0
    cdef bint first = True
    add_word(text, b"{")
    while p < record.end:
        p = read_field(p, record.end, &field)
        if p == NULL:
            reason[0] = BAD_MESSAGE
            return BROKEN
        if field.number == META and field.type == LENGTH:
            record.meta = field.bytes
        if field.number != DATA or field.type != LENGTH:
            continue
        if at == table.field_count:
            reason[0] = OTHER_COUNT
            return BROKEN
        known = &table.fields[at]
        at += 1
        if not read_typed(field.bytes.start, field.bytes.end, &value):
            reason[0] = BAD_MESSAGE
            return BROKEN
        if known.column < 0 or value.kind == UNSET or value.kind == NULL_:
            continue
        if not first:
            add_word(text, b",")
        first = False
        add(text, known.key, known.key_size)
        add_word(text, b":")
        if not add_value(text, &value):
            reason[0] = BAD_VALUE
            return BROKEN
    if at != table.field_count and at != 0:
        reason[0] = OTHER_COUNT
        return BROKEN
    add_word(text, b"}")
    return STORED


cdef inline Cell read_spelled(Table* table, Typing* record, Buffer* room, Span* meta, Reason* reason) noexcept nogil:
    """Write the record and its changes as JSON into `room`, and read the row from it."""
    cdef Text text
    cdef Fault fault
    cdef size_t size
    cdef Cell cell
    text.room = room
    text.pool = table.pool
    text.size = 0
    text.failed = False
    cell = spell_values(table, record, &text, reason)
    size = text.size
    if cell == STORED and record.meta.start != NULL and not spell_changes(&text, record.meta):
        reason[0] = BAD_MESSAGE
        return BROKEN
    add_word(&text, b"\n")
    if text.failed:
        return IN_TROUBLE
    if cell != STORED:
        return cell
    record.lim = room.data + room.capacity
    if record.meta.start != NULL:
        meta.start = room.data + size
        meta.end = room.data + text.size - 1
    if not begin_row(table):
        return IN_TROUBLE
    fault.at = NULL
    if read_data(table, room.data, record.lim, &fault) != NULL:
        return STORED
    drop_row(table)
    reason[0] = BAD_TEXT if fault.at != NULL else BAD_VALUE
    return BROKEN if fault.at != NULL else IN_TROUBLE


cdef inline Cell read_row(Table* table, Typing* record, Buffer* room, Span* meta, Reason* reason) noexcept nogil:
    """Read a record into a row of its table; the caller finishes the row by `finish_row`."""
    cdef Cell cell
    if not begin_row(table):
        return IN_TROUBLE
    cell = read_values(table, record, room, reason)
    if cell == STORED and record.meta.start == NULL:
        return STORED
    # The changes must be written as JSON, too; they are rare.
    drop_row(table)
    if cell != STORED and cell != UNUSUAL:
        return cell
    return read_spelled(table, record, room, meta, reason)


cdef inline Verdict refused(Message* message, Reason reason) noexcept nogil:
    """Record why the bytes are not a message."""
    message.fault.at = NULL
    message.fault.reason = reason
    return INVALID


cdef inline Verdict read_typed_record(
    Streams* streams, Span bytes, const uint8_t* lim, Message* message
) noexcept nogil:
    """Act on a record."""
    cdef Typing record
    cdef Record rest
    cdef Table* table = NULL
    cdef Cell cell = SCATTERED
    cdef Reason reason = BAD_MESSAGE
    cdef int32_t index
    cdef int whole
    cdef bint is_text
    rest.meta.start = rest.meta.end = rest.reference.start = rest.file.start = NULL
    record.end = bytes.end
    for whole in range(2):
        record.lim = lim
        if not read_head(bytes.start, &record, whole):
            return refused(message, BAD_MESSAGE)
        if record.name.start == NULL:
            continue
        message.stream = record.name
        message.space = record.space
        message.partition = record.partition
        index = find_stream(streams, record.space, record.name)
        if index < 0:
            is_text = is_utf8(record.name.start, record.name.end) and is_utf8(record.space.start, record.space.end)
            return STRANGER if is_text else refused(message, BAD_TEXT)
        table = streams.items[index].table
        if table == NULL:
            streams.items[index].ignored += 1
            return DONE
        table.trouble = NO_TROUBLE
        if whole:
            cell = read_spelled(table, &record, &streams.scratch, &rest.meta, &reason)
        else:
            cell = read_row(table, &record, &streams.scratch, &rest.meta, &reason)
        if cell != SCATTERED:
            break
    if record.name.start == NULL:
        return refused(message, NO_STREAM)
    if cell == STORED:
        rest.partition = record.partition
        if finish_row(
            table, record.emitted <= INT64_MAX // 1000, <int64_t>(record.emitted * 1000), &rest, record.lim, streams.line
        ):
            return DONE
        cell = IN_TROUBLE
    if cell == IN_TROUBLE:
        return FULL if table.trouble == TOO_LARGE else OUT_OF_MEMORY
    return refused(message, reason)


cdef inline Verdict read_frame(
    Streams* streams, const uint8_t* p, const uint8_t* end, const uint8_t* lim, Message* message
) noexcept nogil:
    """Act on the message [p, end); a JSON message inside it is put into `message.body`, with the verdict EMBEDDED."""
    cdef Field field
    cdef Span record, text
    record.start = text.start = NULL
    message.stream.start = message.type.start = NULL
    while p < end:
        p = read_field(p, end, &field)
        if p == NULL:
            return refused(message, BAD_MESSAGE)
        if field.type != LENGTH or field.number > 3:
            continue
        record.start = text.start = NULL  # the last of several fields counts
        if field.number == 1:
            record = field.bytes
        elif field.number == 2:
            text = field.bytes
    if record.start != NULL:
        return read_typed_record(streams, record, lim, message)
    if text.start != NULL:
        message.body = text
        return EMBEDDED
    return DONE
