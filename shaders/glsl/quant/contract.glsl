// What a weight format defines, in one file quant/<stem>.glsl, which kernels get by including this one.
//
// Weights are read in chunks of 32, a unit that 16 bytes of packed bits give cheaply. Chunk `c` of a row need not be 32
// neighbours: a format says where its eight groups of four lie, and kernels fetch activations there.
//
//   Weights                            the view of the matrix's blocks
//   uint chunk_col(uint c, uint i)     column in the row of the first weight of group i; its four are neighbours
//   PIECES                             1, 2 or 4: a piece is 8 / PIECES groups with one scale; its columns lie within one
//                                      aligned run of 32
//   void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES])
//                                      chunk g = row * (k / 32) + c: four signed bytes per group, and (scale, offset) per
//                                      piece; a weight is scale * byte + offset
//   HAS_OFFSET                         defined if offsets are not all zero
//   WEIGHT_INIT                        if defined, run once by all threads of a workgroup; it may read `codebooks` of the
//                                      push constants
//
// Formats of floats define, instead of codes, void weight_chunk(Weights w, uint g, out vec4 v[8]): the weights.
uint bytes_of_nibbles(uint q) { return q & 0x0f0f0f0fu; }
vec4 bytes4(uint q) {
    int s = int(q);
    return vec4(bitfieldExtract(s, 0, 8), bitfieldExtract(s, 8, 8), bitfieldExtract(s, 16, 8), bitfieldExtract(s, 24, 8));
}
// Bits 0..4 as bytes 0 or 1.
uint spread_bits(uint b) { return ((b & 15) * 0x00204081u) & 0x01010101u; }
// Two-bit fields 0..4 of a byte as bytes.
uint spread_pairs(uint b) { return (b & 3) | ((b & 12) << 6) | ((b & 48) << 12) | ((b & 192) << 18); }
uint pair_at(U16 w, uint at) { return uint(w.v[at]) | (uint(w.v[at + 1]) << 16); }
uint byte_at(U16 w, uint at) { return (uint(w.v[at / 2]) >> (8 * (at % 2))) & 255; }
#include "weight.glsl"
#ifndef WEIGHT_INIT
#define WEIGHT_INIT
#endif
#ifdef PIECES
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint q[8];
    vec2 s[PIECES];
    weight_codes(w, g, q, s);
    [[unroll]] for (uint i = 0; i < 8; i++) v[i] = s[i * PIECES / 8].x * bytes4(q[i]) + s[i * PIECES / 8].y;
}
#endif
