// What a weight format defines, in one file quant/<stem>.glsl; kernels include it as "weight.glsl".
//
// Weights are decoded in chunks of 32, a unit that 16 bytes of packed bits give cheaply. Chunk `c` of a row need not be
// 32 neighbours: a format says where its eight groups of four lie, and kernels fetch activations there.
//
//   Weights                                              the view of the matrix's blocks
//   void weight_chunk(Weights w, uint g, out vec4 v[8])  chunk g = row * (k / 32) + c, decoded
//   uint chunk_col(uint c, uint i)                       column of v[i].x in the row; v[i] are four neighbours
vec4 nibbles(uint q) { return vec4(q & 15, (q >> 8) & 15, (q >> 16) & 15, (q >> 24) & 15); }
