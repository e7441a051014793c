// SHA-256 in hexadecimal. Browsers offer their own only over https and on localhost, so `digest` is used elsewhere.

export async function sha256(bytes) {
  return hex(globalThis.crypto?.subtle ? new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)) : digest(bytes));
}

export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function concatenate(parts) {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let position = 0;
  for (const part of parts) {
    all.set(part, position);
    position += part.length;
  }
  return all;
}

// FIPS 180-4: the first 32 bits of the fractional parts of roots of the first primes.
function fractions(count, power) {
  const primes = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((p) => n % p)) primes.push(n);
  return primes.map((p) => ((p ** power % 1) * 2 ** 32) | 0);
}

const K = fractions(64, 1 / 3);
const START = fractions(8, 1 / 2);
const rotateRight = (x, n) => (x >>> n) | (x << (32 - n));

export function digest(bytes) {
  const length = Math.ceil((bytes.length + 9) / 64) * 64;
  const padded = concatenate([bytes, new Uint8Array(length - bytes.length)]);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(length - 4, bytes.length << 3);
  const state = [...START];
  const w = new Int32Array(64);
  for (let block = 0; block < length; block += 64) {
    for (let t = 0; t < 16; t++) w[t] = view.getInt32(block + 4 * t);
    for (let t = 16; t < 64; t++) {
      const s0 = rotateRight(w[t - 15], 7) ^ rotateRight(w[t - 15], 18) ^ (w[t - 15] >>> 3);
      const s1 = rotateRight(w[t - 2], 17) ^ rotateRight(w[t - 2], 19) ^ (w[t - 2] >>> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let t = 0; t < 64; t++) {
      const t1 = h + (rotateRight(e, 6) ^ rotateRight(e, 11) ^ rotateRight(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t];
      const t2 = (rotateRight(a, 2) ^ rotateRight(a, 13) ^ rotateRight(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, index) => (state[index] = (state[index] + value) | 0));
  }
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((value, index) => out.setInt32(4 * index, value));
  return new Uint8Array(out.buffer);
}
