// Q8_0: see quant/src/q8_0.rs. A block is a chunk; 34 bytes, so reads are 16 bits wide.
#define Weights U16
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    float d = half1(uint(w.v[g * 17]));
    [[unroll]] for (uint i = 0; i < 8; i++) {
        int a = int(uint(w.v[g * 17 + 1 + 2 * i]));
        int b = int(uint(w.v[g * 17 + 2 + 2 * i]));
        v[i] = d * vec4(bitfieldExtract(a, 0, 8), bitfieldExtract(a, 8, 8), bitfieldExtract(b, 0, 8), bitfieldExtract(b, 8, 8));
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
