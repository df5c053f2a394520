// Q2_K: see quant/src/q2_k.rs. A chunk is 8 weights of each quarter of a half, as in Q6_K; a block is 21 words.
#define Weights U32
#define PIECES 4
#define HAS_OFFSET
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 21, part = g % 4, half_at = (g % 8) / 4;
    vec2 d = unpackHalf2x16(w.v[block + 20]);
    uint q0 = w.v[block + 4 + 8 * half_at + 2 * part], q1 = w.v[block + 5 + 8 * half_at + 2 * part];
    [[unroll]] for (uint k = 0; k < 4; k++) {
        uint at = 8 * half_at + 2 * k + part / 2;
        uint pair = w.v[block + at / 4] >> (8 * (at % 4));
        s[k] = vec2(d.x * float(pair & 15), -d.y * float((pair >> 4) & 15));
        q[2 * k] = (q0 >> (2 * k)) & 0x03030303u;
        q[2 * k + 1] = (q1 >> (2 * k)) & 0x03030303u;
    }
}
uint chunk_col(uint c, uint i) { return (c / 8) * 256 + ((c % 8) / 4) * 128 + (i / 2) * 32 + (c % 4) * 8 + (i % 2) * 4; }
