// MessagePack as docs/wire-format.md uses it: no extensions, keys are text and come once, nothing after the end.

const text = new TextDecoder("utf-8", { fatal: true });

class Unpacking {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.place = 0;
  }

  number(width, read) {
    const at = this.place;
    this.skip(width);
    return read.call(this.view, at);
  }

  skip(length) {
    if (this.place + length > this.bytes.length) throw new Error("cut short");
    this.place += length;
  }

  part(length) {
    this.skip(length);
    return this.bytes.subarray(this.place - length, this.place);
  }

  list(length) {
    return Array.from({ length: Math.min(length, this.bytes.length) }, () => this.value());
  }

  map(length) {
    const found = new Map();
    for (let left = length; left > 0; left--) {
      const key = this.value();
      if (typeof key !== "string" || found.has(key)) throw new Error("a key is no text, or comes twice");
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
      default: throw new Error("an extension");
    }
  }
}

// A record's fields; throws if the bytes are not one message of version 1.
export function unpack(bytes) {
  const unpacking = new Unpacking(bytes);
  const found = unpacking.value();
  if (unpacking.place !== bytes.length) throw new Error("more after the end");
  if (!(found instanceof Map) || found.get("v") !== 1) throw new Error("not a map of version 1");
  return Object.fromEntries(found);
}
