// What a weight format defines, in one file quant/<stem>.glsl, which kernels get by including this one.
//
// Weights are decoded in chunks of 32, a unit that 16 bytes of packed bits give cheaply. Chunk `c` of a row need not be
// 32 neighbours: a format says where its eight groups of four lie, and kernels fetch activations there.
//
//   Weights                                              the view of the matrix's blocks
//   void weight_chunk(Weights w, uint g, out vec4 v[8])  chunk g = row * (k / 32) + c, decoded
//   uint chunk_col(uint c, uint i)                       column of v[i].x in the row; v[i] are four neighbours
//   WEIGHT_INIT                                          if defined, run once by all threads of a workgroup; it may
//                                                        read `codebooks` of the push constants
vec4 nibbles(uint q) { return vec4(q & 15, (q >> 8) & 15, (q >> 16) & 15, (q >> 24) & 15); }
vec4 pairs(uint q) { return vec4(q & 3, (q >> 8) & 3, (q >> 16) & 3, (q >> 24) & 3); }
vec4 bits4(uint b) { return vec4((uvec4(b) >> uvec4(0, 1, 2, 3)) & 1); }
vec4 bytes4(uint q) {
    int s = int(q);
    return vec4(bitfieldExtract(s, 0, 8), bitfieldExtract(s, 8, 8), bitfieldExtract(s, 16, 8), bitfieldExtract(s, 24, 8));
}
uint pair_at(U16 w, uint at) { return uint(w.v[at]) | (uint(w.v[at + 1]) << 16); }
uint byte_at(U16 w, uint at) { return (uint(w.v[at / 2]) >> (8 * (at % 2))) & 255; }
#include "weight.glsl"
#ifndef WEIGHT_INIT
#define WEIGHT_INIT
#endif
