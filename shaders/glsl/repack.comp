// Blocks as in the file -> planes: the words of rows whose fields lie together, see quant/contract.glsl.
#version 460
#include "lib/types.glsl"
layout(local_size_x = 256) in;
layout(push_constant) uniform Push {
    U32 from;         // [rows, blocks] of block_bytes bytes
    U32 to;           // [rows, row_words]
    uint rows;
    uint blocks;      // in a row
    uint block_bytes;
    uint row_words;
    uint fields;
    uint place[10];   // of each field: byte in the block, bytes
};

void main() {
    uint total = rows * row_words, row_bytes = blocks * block_bytes;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / row_words, first = 4 * (i % row_words), word = 0;
        for (uint b = 0; b < 4; b++) {
            uint at = first + b, f = 0;
            if (at >= row_bytes) break;
            while (f + 1 < fields && at >= blocks * place[2 * f + 1]) {
                at -= blocks * place[2 * f + 1];
                f++;
            }
            uint width = place[2 * f + 1];
            uint source = row * row_bytes + at / width * block_bytes + place[2 * f] + at % width;
            word |= ((from.v[source / 4] >> (8 * (source % 4))) & 255) << (8 * b);
        }
        to.v[i] = word;
    }
}
