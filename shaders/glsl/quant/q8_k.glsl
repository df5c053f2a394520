// Q8_K: see quant/src/q8_k.rs. A chunk is 32 bytes; the sums after them are not read.
#define Weights U32
#define PIECES 1
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 73;
    s[0] = vec2(uintBitsToFloat(w.v[block]), 0.0);
    [[unroll]] for (uint i = 0; i < 8; i++) q[i] = w.v[block + 1 + (g % 8) * 8 + i];
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
