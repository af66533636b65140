"""Changes inputs at random: bytes, words and lines of any file, and fields of protobuf messages (ONNX)."""
import random

NUMBERS = [b"0", b"-1", b"1", b"2147483648", b"4294967295", b"4294967296", b"9223372036854775807", b"9223372036854775808",
           b"18446744073709551616", b"-9223372036854775809", b"1e308", b"1e-310", b"1e999", b"nan", b"inf", b"-0", b"0x10", b"1.5",
           b"00000000000000000000000000000001", b"1" * 400]
PIECES = NUMBERS + [b"", b" ", b"\t", b"\n", b"\r\n", b"\0", b"\x1b[31m", b"\xff", b"\xc0\x80", b"\xe2\x80\xae", b"\"", b"'", b"\\", b"\\u0000",
                    b"\\ud800", b"{", b"}", b"[", b"]", b"[" * 3000, b"{\"a\":" * 3000, b",", b":", b";", b"%", b"#", b"null", b"true", b"{}", b"[]",
                    b"../../etc/passwd", b"/", b"</script>", b"<img src=x onerror=alert(1)>", b"a" * 5000]


def change_bytes(data, other, chance):
    """Returns `data` with one to four changes; `other` is a second input, of which pieces are taken."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice((1, 1, 2, 4, 8, 64, 4096)))
        how = chance.randrange(8)
        if how == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif how == 1 and at < len(data):
            data[at] = chance.randrange(256)
        elif how == 2:
            del data[at:end]
        elif how == 3:
            data[at:at] = data[at:end]
        elif how == 4:
            data[at:at] = chance.choice(PIECES)
        elif how == 5:
            data[at:end] = chance.choice(PIECES)
        elif how == 6:
            del data[at:]
        elif other:
            begin = chance.randrange(len(other))
            data[at:end] = other[begin:begin + chance.choice((1, 8, 64, 1024))]
    return bytes(data)


def change_words(data, other, chance):
    """Returns `data` with words or lines changed: the structure of a text stays more often than with bytes."""
    separator = chance.choice((b"\n", b",", b" ", b"\n"))
    parts, others = data.split(separator), other.split(separator)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(parts))
        how = chance.randrange(6)
        if how == 0 and len(parts) > 1:
            del parts[at]
        elif how == 1:
            parts.insert(at, parts[chance.randrange(len(parts))])
        elif how == 2:
            there = chance.randrange(len(parts))
            parts[at], parts[there] = parts[there], parts[at]
        elif how == 3:
            parts[at] = chance.choice(PIECES)
        elif how == 4:
            digits = [i for i, c in enumerate(parts[at]) if 48 <= c <= 57]
            if digits:
                i = chance.choice(digits)
                parts[at] = parts[at][:i] + chance.choice(NUMBERS) + parts[at][i + 1:]
        else:
            parts[at] = chance.choice(others)
    return separator.join(parts)


def read_varint(data, at):
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at
    raise ValueError


def written_varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes((value,)))


def fields_of(data):
    """Returns the fields of a message as [number, wire type, content]; ValueError if `data` is no message."""
    fields, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise ValueError
        if kind == 0:
            content, at = read_varint(data, at)
        elif kind in (1, 2, 5):
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                size, at = read_varint(data, at)
            content, at = bytes(data[at:at + size]), at + size
            if at > len(data):
                raise ValueError
        else:
            raise ValueError
        fields.append([number, kind, content])
    return fields


def written_fields(fields):
    out = bytearray()
    for number, kind, content in fields:
        out += written_varint(number << 3 | kind)
        if kind == 0:
            out += written_varint(content)
        else:
            out += (written_varint(len(content)) if kind == 2 else b"") + content
    return bytes(out)


def change_field(data, other, chance, depth=0):
    """Returns the message with a field of it, or of a message inside, changed, dropped, repeated or moved."""
    try:
        fields = fields_of(data)
    except ValueError:
        return change_bytes(data, other, chance)
    if not fields:
        return data + chance.choice(PIECES)
    at = chance.randrange(len(fields))
    number, kind, content = fields[at]
    if kind == 2 and content and depth < 8 and chance.random() < 0.8:
        fields[at][2] = change_field(content, other, chance, depth + 1)
        return written_fields(fields)
    how = chance.randrange(6)
    if how == 0:
        del fields[at]
    elif how == 1:
        fields.insert(chance.randrange(len(fields) + 1), fields[at])
    elif how == 2:
        fields[at][0] = chance.randrange(1, 30)
    elif how == 3:
        there = chance.randrange(len(fields))
        if fields[there][1] == kind:
            fields[at][2] = fields[there][2]
    elif kind == 0:
        fields[at][2] = chance.choice((0, 1, 2, 3, 7, 16, 2**31, 2**32, 2**63, 2**64 - 1, content + 1))
    else:
        fields[at][2] = change_bytes(content, other, chance)[:len(content) if kind != 2 else None]
        if kind != 2:
            fields[at][2] = fields[at][2].ljust(len(content), b"\0")
    return written_fields(fields)


def change(data, other, is_onnx, chance: random.Random):
    """Returns a changed copy of `data`."""
    if is_onnx:
        kinds = (change_field, change_field, change_bytes)
    else:
        kinds = (change_words, change_words, change_bytes)
    return chance.choice(kinds)(data, other, chance)
