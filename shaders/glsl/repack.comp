// Blocks as in the file -> soa: the words of rows whose fields lie together, see quant/contract.glsl, some of them codes in
// another order, see quant/src/codes.rs.
#version 460
#include "lib/types.glsl"
#include "words/shared.glsl"
layout(local_size_x = 256) in;
#include "push/repack.glsl"

// Rows that a workgroup lays out are held here first, if one fits: `from` may be the host's memory, of which every word is read
// once then, beside its neighbours.
const uint HELD = 4096;
shared uint held[HELD];
bool holds;
uint begin; // first word that is held

uint word(uint i) { return holds ? held[i - begin] : from.v[i]; }
uint byte_at(uint at) { return (word(at / 4) >> (8 * (at % 4))) & 255; }
uint bit_at(uint at) { return (word(at / 32) >> (at % 32)) & 1; }

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

uint field_of(inout uint at) {
    uint f = 0;
    while (f + 1 < fields && at >= blocks * place[2 * f + 1]) {
        at -= blocks * place[2 * f + 1];
        f++;
    }
    return f;
}
uint soa_byte(uint row, uint at) {
    if (at >= row_bytes) return 0;
    const uint f = field_of(at), width = place[2 * f + 1], part = place[2 * f];
    const uint block = (row * blocks + at / width) * block_bytes;
    return part >= REPACK_CODES ? codes_byte(block, part - REPACK_CODES + at % width) : byte_at(block + part + at % width);
}
// Four bytes that follow each other.
uint word_at(uint at) {
    const uint by = 8 * (at % 4), low = word(at / 4);
    return by == 0 ? low : (low >> by) | (word(at / 4 + 1) << (32 - by));
}

// Word `i` of a row as a structure of arrays.
uint soa_word(uint row, uint i) {
    uint at = 4 * i, four = 0;
    const uint f = field_of(at), width = place[2 * f + 1], part = place[2 * f];
    if (4 * i + 4 <= row_bytes && part < REPACK_CODES && width % 4 == 0 && at % 4 == 0) {
        return word_at((row * blocks + at / width) * block_bytes + part + at % width);
    }
    for (uint b = 0; b < 4; b++) four |= soa_byte(row, 4 * i + b) << (8 * b);
    return four;
}

void main() {
    const uint id = gl_LocalInvocationID.x, threads = gl_WorkGroupSize.x, bytes = blocks * block_bytes;
    holds = bytes + 3 <= 4 * HELD; // a row may start within a word
    const uint together = holds ? (4 * HELD - 3) / bytes : 1;
    for (uint first = gl_WorkGroupID.x * together; first < rows; first += gl_NumWorkGroups.x * together) {
        const uint n = min(together, rows - first);
        if (holds) {
            begin = first * bytes / 4;
            const uint end = ((first + n) * bytes + 3) / 4;
            barrier();
            for (uint i = begin + id; i < end; i += threads) held[i - begin] = from.v[i];
            barrier();
        }
        for (uint i = id; i < n * row_words; i += threads) {
            to.v[first * row_words + i] = soa_word(first + i / row_words, i % row_words);
        }
    }
}
