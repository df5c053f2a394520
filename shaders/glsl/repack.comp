// Blocks as in the file -> planes: the words of rows whose fields lie together, see quant/contract.glsl, some of them codes in
// another order, see quant/src/codes.rs.
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
    uint row_bytes;   // of planes
    uint fields;
    uint place[10];   // of each part: byte in the block, or, from CODES on, of the codes; bytes
    U32 places;       // of the bits of the codes: kind, from bit 24 on, and which
    U32 codebook;     // of the format in files, see quant/src/tables.rs
};
const uint CODES = 1 << 16;

uint byte_at(uint at) { return (from.v[at / 4] >> (8 * (at % 4))) & 255; }
uint bit_at(uint at) { return (from.v[at / 32] >> (at % 32)) & 1; }

// Digit of weight i of a block of TQ1_0.
uint digit(uint block, uint i) {
    const uint at = i < 160 ? i % 32 : i < 240 ? 32 + i % 16 : 48 + i % 4;
    const uint n = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
    uint byte = byte_at(block + at);
    for (uint j = 0; j < n; j++) byte = byte * 3 & 255;
    return byte * 3 >> 8;
}
// Code of weight i of a block of a format with a codebook: quant/src/codes.rs, Codebook.
uint code(uint block, uint book, uint i) {
    const uint l = i / 8;
    uint low, from;
    if (book == 0) low = 2 + l, from = 8 * 34 + l / 4 * 16 + 3 * (l % 4);
    else if (book == 1) low = l, from = 8 * 32 + 4 * l;
    else low = 2 + i / 4, from = 8 * 66 + i / 4;
    uint entry = byte_at(block + low);
    for (uint n = 0; n < (book == 2 ? 1 : 3); n++) entry |= bit_at(8 * block + from + n) << (8 + n);
    const uint word = codebook.v[entry], j = i % 8;
    if (book < 2) return (word >> (8 * (j % 4) + j / 4 * 4)) & 15;
    const uint level = ((word >> (8 * (i % 4))) & 255) / 2;
    return bit_at(8 * (block + 74) + i) == 1 ? 7 - level : 8 + level;
}
// A bit of the codes of the block that starts at `block`.
uint bit_of(uint block, uint place) {
    const uint kind = place >> 24, which = place & 0xffffff;
    if (kind == 0) return bit_at(8 * block + which);
    if (kind == 2) return (digit(block, which / 2) >> (which % 2)) & 1;
    if (kind == 3) return (code(block, which >> 16, which % (1 << 16) / 4) >> (which % 4)) & 1;
    uint odd = 0;
    for (uint i = 0; i < 7; i++) odd ^= bit_at(8 * block + which + i);
    return odd;
}
uint codes_byte(uint block, uint b) {
    uint byte = 0;
    for (uint i = 0; i < 8; i++) byte |= bit_of(block, places.v[8 * b + i]) << i;
    return byte;
}

void main() {
    const uint total = rows * row_words;
    for (uint i = gl_GlobalInvocationID.x; i < total; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / row_words, first = 4 * (i % row_words), word = 0;
        for (uint b = 0; b < 4; b++) {
            uint at = first + b, f = 0;
            if (at >= row_bytes) break;
            while (f + 1 < fields && at >= blocks * place[2 * f + 1]) {
                at -= blocks * place[2 * f + 1];
                f++;
            }
            const uint width = place[2 * f + 1], block = (row * blocks + at / width) * block_bytes, part = place[2 * f];
            const uint byte = part >= CODES ? codes_byte(block, part - CODES + at % width) : byte_at(block + part + at % width);
            word |= byte << (8 * b);
        }
        to.v[i] = word;
    }
}
