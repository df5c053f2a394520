// Q8_K: see quant/src/q8_k.rs. A chunk is 32 bytes; the sums after them are not read.
#define Weights U32
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 73;
    float d = uintBitsToFloat(w.v[block]);
    [[unroll]] for (uint i = 0; i < 8; i++) v[i] = d * bytes4(w.v[block + 1 + (g % 8) * 8 + i]);
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
