// Decodes MessagePack as docs/wire-format.md restricts it: no extensions, unique text keys, and no bytes after the end.

const text = new TextDecoder("utf-8", { fatal: true });

class Decoder {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.position = 0;
  }

  number(width, read) {
    const start = this.position;
    this.skip(width);
    return read.call(this.view, start);
  }

  skip(length) {
    if (this.position + length > this.bytes.length) throw new Error("the message is cut short");
    this.position += length;
  }

  part(length) {
    this.skip(length);
    return this.bytes.subarray(this.position - length, this.position);
  }

  list(length) {
    return Array.from({ length: Math.min(length, this.bytes.length) }, () => this.value());
  }

  map(length) {
    const found = new Map();
    for (let left = length; left > 0; left--) {
      const key = this.value();
      if (typeof key !== "string" || found.has(key)) throw new Error("a key is not text, or is repeated");
      found.set(key, this.value());
    }
    return found;
  }

  value() {
    const { getUint8, getUint16, getUint32, getBigUint64, getInt8, getInt16, getInt32, getBigInt64, getFloat32, getFloat64 } =
      DataView.prototype;
    const head = this.number(1, getUint8);
    if (head < 0x80) return head;
    if (head < 0x90) return this.map(head & 15);
    if (head < 0xa0) return this.list(head & 15);
    if (head < 0xc0) return text.decode(this.part(head & 31));
    if (head >= 0xe0) return head - 256;
    switch (head) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: return this.part(this.number(1, getUint8));
      case 0xc5: return this.part(this.number(2, getUint16));
      case 0xc6: return this.part(this.number(4, getUint32));
      case 0xca: return this.number(4, getFloat32);
      case 0xcb: return this.number(8, getFloat64);
      case 0xcc: return this.number(1, getUint8);
      case 0xcd: return this.number(2, getUint16);
      case 0xce: return this.number(4, getUint32);
      case 0xcf: return Number(this.number(8, getBigUint64));
      case 0xd0: return this.number(1, getInt8);
      case 0xd1: return this.number(2, getInt16);
      case 0xd2: return this.number(4, getInt32);
      case 0xd3: return Number(this.number(8, getBigInt64));
      case 0xd9: return text.decode(this.part(this.number(1, getUint8)));
      case 0xda: return text.decode(this.part(this.number(2, getUint16)));
      case 0xdb: return text.decode(this.part(this.number(4, getUint32)));
      case 0xdc: return this.list(this.number(2, getUint16));
      case 0xdd: return this.list(this.number(4, getUint32));
      case 0xde: return this.map(this.number(2, getUint16));
      case 0xdf: return this.map(this.number(4, getUint32));
      default: throw new Error("extensions are not allowed");
    }
  }
}

// Returns the fields of a record. Throws if the bytes are not one message of version 1.
export function unpack(bytes) {
  const decoder = new Decoder(bytes);
  const message = decoder.value();
  if (decoder.position !== bytes.length) throw new Error("there are bytes after the end");
  if (!(message instanceof Map) || message.get("v") !== 1) throw new Error("it is not a map of version 1");
  return Object.fromEntries(message);
}
