// TQ1_0: see quant/src/tq1_0.rs. Soa have digits as pairs of bits.
#define CHUNK 64
#define PIECES 4
#define HAS_OFFSET
#define UNSIGNED_CODES 1
struct Raw {
    uvec4 n[4];
    uint last;
    uint d;
};
Raw weight_load(Line l, uint c) {
    Raw r;
    const uint block = c / 4, at = field_at(l, QS, block);
    r.d = get_u16(l, field_at(l, D, block));
    if (SOA == 1) {
        r.n[0] = get_x4(l, part_at(l, QS, c, 4, 16));
        return r;
    }
    // Of 32 weights each: a digit of 32 bytes; else two digits of 16, or one of 16 and all of the last four bytes.
    [[unroll]] for (uint h = 0; h < 2; h++) {
        const bool wide = 2 * (c % 4) + h < 5;
        r.n[2 * h] = get_x4(l, wide ? at : at + 32);
        r.n[2 * h + 1] = get_x4(l, wide ? at + 16 : at + 32);
    }
    r.last = get_u32(l, field_at(l, QH, block));
    return r;
}
uint pow3(uint n) { return n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81; }
// Digits of four bytes, two at a time: each times 3^n modulo 256, then times 3; the digit is what reaches the next byte.
uint digits(uint n, uint power) {
    uint even = ((n & 0x00ff00ffu) * power & 0x00ff00ffu) * 3;
    uint odd = (((n >> 8) & 0x00ff00ffu) * power & 0x00ff00ffu) * 3;
    return ((even >> 8) & 0x00030003u) | (odd & 0x03000300u);
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    const float d = half1(r.d);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        s[k] = vec2(SOA == 1 ? d / float(1 << (2 * k)) : d, -d);
        const uint j = 2 * (c % 4) + k / 2, first = j < 5 ? j : 2 * (j - 5), power = pow3(first + (j < 5 ? 0 : k % 2));
        [[unroll]] for (uint i = 0; i < 4; i++) {
            if (SOA == 1) q[4 * k + i] = r.n[0][i] & (0x03030303u << (2 * k));
            else if (j == 7 && k % 2 == 1) q[4 * k + i] = digits(r.last, pow3(i));
            else q[4 * k + i] = digits(r.n[k][i], power);
        }
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
