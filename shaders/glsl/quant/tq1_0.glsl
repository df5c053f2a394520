// TQ1_0: see quant/src/tq1_0.rs. Four neighbours are always the same digit of four neighbouring bytes.
#define CHUNK 32
#define PIECES 1
#define HAS_OFFSET
struct Raw {
    uvec4 n0, n1;
    uint last;
    uint d;
};
Raw weight_load(Line l, uint c) {
    uint block = c / 8, at = field_at(l, QS, block);
    bool wide = c % 8 < 5; // a digit of 32 bytes; else two digits of 16, or one of 16 and all of the last four bytes
    uvec4 n0 = get_x4(l, wide ? at : at + 32), n1 = get_x4(l, wide ? at + 16 : at + 32);
    return Raw(n0, n1, get_u32(l, field_at(l, QH, block)), get_u16(l, field_at(l, D, block)));
}
uint pow3(uint n) { return n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81; }
// Digits of four bytes, two at a time: each times 3^n modulo 256, then times 3; the digit is what reaches the next byte.
uint digits(uint n, uint power) {
    uint even = ((n & 0x00ff00ffu) * power & 0x00ff00ffu) * 3;
    uint odd = (((n >> 8) & 0x00ff00ffu) * power & 0x00ff00ffu) * 3;
    return ((even >> 8) & 0x00030003u) | (odd & 0x03000300u);
}
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    uint j = c % 8, digit = j < 5 ? j : 2 * (j - 5);
    uint power0 = pow3(digit), power1 = pow3(j < 5 ? j : digit + 1);
    float d = half1(r.d);
    s[0] = vec2(d, -d);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        q[i] = digits(r.n0[i], power0);
        q[i + 4] = digits(j == 7 ? r.last : r.n1[i], j == 7 ? pow3(i) : power1);
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
