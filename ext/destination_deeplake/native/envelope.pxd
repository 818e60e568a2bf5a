"""One line -> one message.

Nearly every line is a record whose stream is named before its data: `read_plain_record` reads it in one pass, the data
straight into the columns, and gives up on anything unusual, errors included. Then `read_message` reads the line from
its start: it validates the whole line, keeps the last of duplicate keys in any order, and only then acts.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcmp, memset

from destination_deeplake.native.columns cimport NO_TROUBLE, TOO_LARGE, Table, begin_row, drop_row
from destination_deeplake.native.faults cimport (
    BAD_NAMESPACE,
    NOT_OBJECT,
    NO_DATA,
    NO_RECORD,
    NO_STATE,
    NO_STREAM,
    NO_TYPE,
    TRAILING,
    Fault,
    Reason,
    fail,
)
from destination_deeplake.native.json cimport Span, skip_space, skip_value, unescape
from destination_deeplake.native.members cimport (
    Members,
    is_named,
    is_object,
    is_string,
    member_of,
    next_key,
    next_member,
    string_is,
    walk,
)
from destination_deeplake.native.memory cimport grow
from destination_deeplake.native.rows cimport Record, finish_row, read_data
from destination_deeplake.native.streams cimport Streams, find_stream, is_stream, space_of
from destination_deeplake.native.values cimport DATA_DEPTH, extraction_time


cdef extern from *:
    """
    static const uint8_t dl_no_text[1] = {0};
    """
    const uint8_t* NO_TEXT "dl_no_text"


cdef enum Verdict:
    DONE  # a record is in its table, or the line is blank
    STATE
    STATUS
    IGNORED  # a message of another type
    STRANGER  # a record of an unknown stream that has not occurred before
    INVALID
    OUT_OF_MEMORY
    FULL
    EMBEDDED  # a JSON message inside a message of Protocol Buffers


cdef struct Message:
    Fault fault
    Span type  # the string, quotes included
    Span stream  # of a record: name and namespace, without escapes
    Span space
    Span partition  # of a record that has one
    Span body  # the object `state` or `trace`; the embedded message


cdef inline bint plain_text(Span value, Span* text) noexcept nogil:
    """Take the text of a string that has no escapes."""
    if not is_string(value):
        return False
    text.start = value.start + 1
    text.end = value.end - 1
    return memchr(text.start, c"\\", text.end - text.start) == NULL


cdef inline Span inside(Span value) noexcept nogil:
    """Return the text between the quotes of a string, with its escapes; empty for other values."""
    if is_string(value):
        value.start += 1
        value.end -= 1
    else:
        value.start = value.end = NO_TEXT
    return value


cdef inline bint plain_namespace(Span value, Span* text) noexcept nogil:
    """Take a namespace that has no escapes; an absent namespace and null become the empty text."""
    if value.start == NULL or value.start[0] == c"n":
        text.start = text.end = NO_TEXT
        return True
    return plain_text(value, text)


cdef inline bint key_is(const Members* members, const char* name, size_t n) noexcept nogil:
    """Tell whether the key of this step is written exactly like `name`."""
    return <size_t>(members.key.end - members.key.start) == n and memcmp(members.key.start, name, n) == 0


cdef inline Span* member_slot(Record* record, const Members* members) noexcept nogil:
    """Return the span for the value of this key of `record`, or NULL for a key that is not read."""
    if key_is(members, b"stream", 6):
        return &record.stream
    if key_is(members, b"emitted_at", 10):
        return &record.emitted
    if key_is(members, b"namespace", 9):
        return &record.space
    if key_is(members, b"meta", 4):
        return &record.meta
    if key_is(members, b"data", 4):
        return &record.data
    if key_is(members, b"file_reference", 14):
        return &record.reference
    if key_is(members, b"file", 4):
        return &record.file
    if key_is(members, b"partition_id", 12):
        return &record.partition
    return NULL


cdef inline bint expect_stream(Streams* streams, Record* record) noexcept nogil:
    """Find the stream of a record before its data; the namespace may follow the data."""
    cdef Span space, name
    if not plain_text(record.stream, &name) or not plain_namespace(record.space, &space):
        return False
    if record.space.start == NULL and streams.late and streams.last >= 0:
        space = space_of(&streams.items[streams.last])
    record.index = find_stream(streams, space, name)
    return record.index >= 0


cdef inline const uint8_t* read_plain_data(
    Streams* streams, Record* record, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read the data of a record straight into its table; skip the data of a stream without a table."""
    cdef Table* table
    if p[0] != c"{" or not expect_stream(streams, record):
        return NULL
    table = streams.items[record.index].table
    if table == NULL:
        return skip_value(p, lim, DATA_DEPTH - 1, fault)
    if not begin_row(table):
        return NULL
    record.table = table
    return read_data(table, p, lim, fault)


cdef inline const uint8_t* read_plain_members(
    Streams* streams, Record* record, const uint8_t* p, const uint8_t* lim, Fault* fault
) noexcept nogil:
    """Read the members of `record` at `p`; NULL as soon as one is unusual."""
    cdef Members members
    cdef Span* slot
    cdef int step
    walk(&members, p)
    while True:
        step = next_key(&members, lim, fault)
        if step == 0:
            return members.at if record.data.start != NULL else NULL
        if step < 0 or members.escaped:
            return NULL
        slot = member_slot(record, &members)
        p = members.at
        if slot == &record.data and slot.start == NULL:
            members.at = read_plain_data(streams, record, p, lim, fault)
        else:
            members.at = skip_value(p, lim, DATA_DEPTH - 1, fault)
        if members.at == NULL:
            return NULL
        if slot != NULL:
            if slot.start != NULL:
                return NULL
            slot.start = p
            slot.end = members.at


cdef inline bint read_plain_envelope(
    Streams* streams, Record* record, const uint8_t* p, const uint8_t* end, const uint8_t* lim
) noexcept nogil:
    """Read a line up to its end; False as soon as something is unusual."""
    cdef Members members
    cdef Fault fault
    cdef Span space, name
    cdef bint typed = False
    cdef int step
    if p[0] != c"{":
        return False
    walk(&members, p)
    while True:
        step = next_key(&members, lim, &fault)
        if step == 0:
            break
        if step < 0 or members.escaped:
            return False
        p = members.at
        if key_is(&members, b"type", 4):
            if typed or end - p < 8 or memcmp(p, b'"RECORD"', 8) != 0:
                return False
            typed = True
            members.at = p + 8
        elif key_is(&members, b"record", 6):
            if record.data.start != NULL or p[0] != c"{":
                return False
            members.at = read_plain_members(streams, record, p, lim, &fault)
        else:
            members.at = skip_value(p, lim, 1, &fault)
        if members.at == NULL:
            return False
    if not typed or record.data.start == NULL or skip_space(members.at) != end:
        return False
    if not plain_text(record.stream, &name) or not plain_namespace(record.space, &space):
        return False
    return is_stream(&streams.items[record.index], space, name)


cdef inline bint read_plain_record(
    Streams* streams, const uint8_t* p, const uint8_t* end, const uint8_t* lim
) noexcept nogil:
    """Read the line [p, end) if it is a record in the usual form; else leave everything as it was."""
    cdef Record record
    cdef int64_t micros = 0
    cdef bint timed
    memset(&record, 0, sizeof(record))
    if not read_plain_envelope(streams, &record, p, end, lim):
        if record.table != NULL:
            drop_row(record.table)
        return False
    if record.table == NULL:
        streams.items[record.index].ignored += 1
        return True
    timed = extraction_time(record.emitted, &micros)
    record.partition = inside(record.partition)
    return finish_row(record.table, timed, micros, &record, lim, streams.line)


cdef inline Span unescaped(Span value, uint8_t** scratch) noexcept nogil:
    """Return the text of a string with its escapes decoded, in at most as many bytes of `scratch`."""
    cdef bint lone
    cdef Span text
    if not plain_text(value, &text):
        text.start = scratch[0]
        text.end = scratch[0] = unescape(value.start + 1, value.end - 1, scratch[0], &lone)
    return text


cdef inline Verdict refused(Message* message, const uint8_t* at, Reason reason) noexcept nogil:
    """Record why the line is not a message."""
    fail(&message.fault, at, reason)
    return INVALID


cdef inline Verdict write_row(
    Streams* streams, int32_t index, Record* record, const uint8_t* lim
) noexcept nogil:
    """Write a validated record into its table."""
    cdef Table* table = streams.items[index].table
    cdef Fault fault
    cdef int64_t micros = 0
    cdef bint timed = extraction_time(record.emitted, &micros)
    if table == NULL:
        streams.items[index].ignored += 1
        return DONE
    table.trouble = NO_TROUBLE
    record.partition = inside(record.partition)
    if begin_row(table):
        if read_data(table, record.data.start, lim, &fault) == NULL:
            drop_row(table)
        elif finish_row(table, timed, micros, record, lim, streams.line):
            return DONE
    return FULL if table.trouble == TOO_LARGE else OUT_OF_MEMORY


cdef inline void collect_record(Span value, const uint8_t* lim, Record* record) noexcept nogil:
    """Remember the last value of every known member of a validated `record`."""
    cdef Members members
    cdef Fault fault
    memset(record, 0, sizeof(Record))
    walk(&members, value.start)
    while next_member(&members, lim, 0, &fault) == 1:
        if is_named(&members, b"stream", 6):
            record.stream = members.value
        elif is_named(&members, b"namespace", 9):
            record.space = members.value
        elif is_named(&members, b"data", 4):
            record.data = members.value
        elif is_named(&members, b"emitted_at", 10):
            record.emitted = members.value
        elif is_named(&members, b"meta", 4):
            record.meta = members.value
        elif is_named(&members, b"file_reference", 14):
            record.reference = members.value
        elif is_named(&members, b"file", 4):
            record.file = members.value
        elif is_named(&members, b"partition_id", 12):
            record.partition = members.value


cdef inline Verdict read_record(
    Streams* streams, Span value, const uint8_t* lim, Message* message
) noexcept nogil:
    """Act on the validated value of `record`, whatever the order of its members."""
    cdef Record record
    cdef uint8_t* scratch
    cdef size_t needed
    cdef int32_t index
    if not is_object(value):
        return refused(message, value.start, NO_RECORD)
    collect_record(value, lim, &record)
    if not is_string(record.stream):
        return refused(message, value.start, NO_STREAM)
    if record.space.start != NULL and record.space.start[0] != c"n" and not is_string(record.space):
        return refused(message, record.space.start, BAD_NAMESPACE)
    if not is_object(record.data):
        return refused(message, value.start, NO_DATA)
    streams.late = record.space.start > record.data.start
    needed = (record.stream.end - record.stream.start) + (record.space.end - record.space.start)
    if not grow(streams.pool, &streams.scratch, needed, 0):
        return OUT_OF_MEMORY
    scratch = streams.scratch.data
    message.stream = unescaped(record.stream, &scratch)
    message.space.start = message.space.end = NO_TEXT
    if is_string(record.space):
        message.space = unescaped(record.space, &scratch)
    index = find_stream(streams, message.space, message.stream)
    if index < 0:
        return STRANGER
    return write_row(streams, index, &record, lim)


cdef inline Verdict read_message(
    Streams* streams, const uint8_t* p, const uint8_t* end, const uint8_t* lim, Message* message
) noexcept nogil:
    """Validate the line [p, end) and act on it."""
    cdef Members members
    cdef Span record, state, trace
    cdef Fault* fault = &message.fault
    cdef int step
    message.type.start = record.start = record.end = state.start = trace.start = NULL
    p = skip_space(p)
    if p == end:
        return DONE
    if p[0] != c"{":
        p = skip_value(p, lim, 0, fault)
        if p == NULL:
            return INVALID
        p = skip_space(p)
        return refused(message, p, NOT_OBJECT if p == end else TRAILING)
    walk(&members, p)
    while True:
        step = next_member(&members, lim, 1, fault)
        if step == 0:
            break
        if step < 0:
            return INVALID
        if is_named(&members, b"type", 4):
            message.type = members.value
        elif is_named(&members, b"record", 6):
            record = members.value
        elif is_named(&members, b"state", 5):
            state = members.value
        elif is_named(&members, b"trace", 5):
            trace = members.value
    p = skip_space(members.at)
    if p != end:
        return refused(message, p, TRAILING)
    if not is_string(message.type):
        return refused(message, p, NO_TYPE)
    if string_is(message.type, b"RECORD", 6):
        return read_record(streams, record, lim, message)
    if string_is(message.type, b"STATE", 5):
        message.body = state
        return STATE if is_object(state) else refused(message, p, NO_STATE)
    if string_is(message.type, b"TRACE", 5):
        message.body = trace
        if string_is(member_of(trace, b"type", 4, lim), b"STREAM_STATUS", 13):
            return STATUS
    return IGNORED
