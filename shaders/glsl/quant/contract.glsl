// What a weight format defines, in one file quant/<stem>.glsl, which kernels get by including this one.
//
// A row is read in chunks of CHUNK weights, as many as a few loads of 16 bytes hold. A chunk need not be neighbours: a
// format says where its groups of four lie, and kernels fetch activations there.
//
//   CHUNK                              32, 64 or 128; divides the block, or is one
//   PIECES                             a piece is a run of groups with one scale; its columns are neighbours and lie
//                                      within one aligned run of 32
//   uint chunk_col(uint c, uint i)     column in the row of the first weight of group i; its four are neighbours
//   Raw, Raw weight_load(Line l, uint c)
//                                      what memory holds for chunk c, so that it can be fetched long before it is used
//   void weight_codes(Raw r, uint c, out uint q[GROUPS], out vec2 s[PIECES])
//                                      four signed bytes per group, (scale, offset) per piece: a weight is
//                                      scale * byte + offset; only where in its block the chunk is matters of c
//   HAS_OFFSET                         defined if offsets are not all zero
//   UNSIGNED_CODES                     defined if the bytes are unsigned, which can save shifting fields down: as 1 if some
//                                      reach 128, else as 0
//
// A format with a table (quant/src/tables.rs) finds its entries in shared memory, once WEIGHT_INIT has run, by table_entry(i).
//
// A format whose blocks are four chunks with scales that are whole numbers may define, for a kernel that says SMALL_HALVES, what
// takes fewest instructions to turn into halves: codes as they lie, which are subnormal halves, times scales as great.
//
//   PART                               weights are in parts of the block's factor as great as this
//   float16_t weight_small(Raw r, uint c, out Small w)
//                                      the block's factor, and a chunk that has (scale, offset) of its pieces, two to a vector
//   uvec2 small_codes(Small w, uint i) the codes of group i as halves, in the order 0, 2, 1, 3
//   uint small_piece(uint i)           the piece group i belongs to
//
// Of formats whose codes are levels that nibbles choose, the table holds halves then, and they define
//
//   LEVEL_APART                        groups from one of low nibbles to that of the high nibbles of the same bytes, in blocks
//   uint level_word(Raw r, uint i)     the bytes whose nibbles are group i; of a structure of arrays the lower two
//
// Formats of floats define, instead, void weight_floats(Line l, uint c, out vec4 v[8]), and leave PIECES undefined.
//
// A block's fields (made from the format's row in quant/src) lie as in the file, or, with SOA, field by field: first
// that of all blocks of the row, then the next, so that every field can be read as wide as it is. Codes of some formats are in
// another order then (quant/src/codes.rs), of which groups take fewer instructions.
#ifndef CONTRACT
#define CONTRACT
struct Field {
    uint at;     // byte in the block
    uint bytes;  // in a structure of arrays
    uint before; // bytes of the fields that come before it in a structure of arrays
};
layout(constant_id = 20) const uint SOA = 0;
// Rows of a slab, for a matrix that no buffer holds whole: its address is that of a list of slabs' addresses then.
layout(constant_id = 35) const uint SLAB_ROWS = 0;

// A row of a matrix.
struct Line {
    uvec2 at;    // address
    uint blocks;
};
uint row_len; // weights of the rows last found

uint bytes_of_nibbles(uint q) { return q & 0x0f0f0f0fu; }
// Bits 0..4 as bytes 0 or 1.
uint spread_bits(uint b) { return ((b & 15) * 0x00204081u) & 0x01010101u; }
// Two-bit fields 0..4 of a byte as bytes.
uint spread_pairs(uint b) {
    uint apart = (b | (b << 12)) & 0x000f000fu;
    return (apart | (apart << 6)) & 0x03030303u;
}
#endif
#include "fields.glsl" // BLOCK_LEN, BLOCK_BYTES, SOA_BYTES, a Field each

uint line_bytes(uint k) {
    return SOA == 1 ? (k / BLOCK_LEN * SOA_BYTES + 15) & ~15u : k / BLOCK_LEN * BLOCK_BYTES;
}
Line line_of(uvec2 w, uint row, uint k) {
    row_len = k;
    if (SLAB_ROWS > 0) {
        w = U32x2(w).v[row / SLAB_ROWS];
        row %= SLAB_ROWS;
    }
    uint low, high, carry;
    umulExtended(row, line_bytes(k), high, low);
    low = uaddCarry(w.x, low, carry);
    return Line(uvec2(low, w.y + high + carry), k / BLOCK_LEN);
}
Line line_after(Line l, uint rows, uint k) {
    uint carry;
    l.at.x = uaddCarry(l.at.x, rows * line_bytes(k), carry);
    l.at.y += carry;
    return l;
}
uint field_at(Line l, Field f, uint block) {
    return SOA == 1 ? l.blocks * f.before + block * f.bytes : block * BLOCK_BYTES + f.at;
}
// Where part c % of of the field in block c / of starts, parts being of `bytes` bytes.
uint part_at(Line l, Field f, uint c, uint of, uint bytes) {
    return SOA == 1 && of * bytes == f.bytes ? l.blocks * f.before + c * bytes : field_at(l, f, c / of) + c % of * bytes;
}
uint get_u32(Line l, uint at) {
    if (SOA == 1 || BLOCK_BYTES % 4 == 0) return U32(l.at).v[at / 4];
    if (BLOCK_BYTES % 2 == 0) return uint(U16(l.at).v[at / 2]) | (uint(U16(l.at).v[at / 2 + 1]) << 16);
    uint from = at + (l.at.x & 3), by = 8 * (from & 3);
    U32 words = U32(uvec2(l.at.x & ~3u, l.at.y));
    return by == 0 ? words.v[from / 4] : (words.v[from / 4] >> by) | (words.v[from / 4 + 1] << (32 - by));
}
uint get_u16(Line l, uint at) { return uint(U16(l.at).v[at / 2]); } // even addresses only
uint get_u8(Line l, uint at) {
    if (SOA == 0 && BLOCK_BYTES % 2 == 1) {
        uint from = at + (l.at.x & 3);
        return (U32(uvec2(l.at.x & ~3u, l.at.y)).v[from / 4] >> (8 * (from & 3))) & 255;
    }
    return (get_u16(l, at) >> (8 * (at & 1))) & 255;
}
uvec2 get_x2(Line l, uint at) {
    if (SOA == 1 || BLOCK_BYTES % 8 == 0) return U32x2(l.at).v[at / 8];
    return uvec2(get_u32(l, at), get_u32(l, at + 4));
}
uvec4 get_x4(Line l, uint at) {
    if (SOA == 1 || BLOCK_BYTES % 16 == 0) return U32x4(l.at).v[at / 16];
    return uvec4(get_u32(l, at), get_u32(l, at + 4), get_u32(l, at + 8), get_u32(l, at + 12));
}
// 16 bytes at `at` and 16 more, `apart` units of 16 bytes later, by one address.
void get_2x4(Line l, uint at, uint apart, out uvec4 a, out uvec4 b) {
    if (SOA == 1 || BLOCK_BYTES % 16 == 0) {
        uint carry, low = uaddCarry(l.at.x, at, carry);
        U32x4 from = U32x4(uvec2(low, l.at.y + carry));
        a = from.v[0];
        b = from.v[apart];
    } else {
        a = get_x4(l, at);
        b = get_x4(l, at + 16 * apart);
    }
}
float get_half(Line l, uint at) { return unpackHalf2x16(get_u16(l, at)).x; }

#ifdef TABLE_WORDS
// The table stands there several times, entry by entry, so that threads meet less often in one bank.
layout(constant_id = 21) const uint COPIES = TABLE_COPIES; // a power of two
#ifdef TABLE_OF_PAIRS
#define Entry uvec2
#define TABLE_ENTRIES (TABLE_WORDS / 2)
#else
#define Entry uint
#define TABLE_ENTRIES TABLE_WORDS
#endif
const uint TABLE_LEN = COPIES * TABLE_ENTRIES;
#ifdef TABLE_IN_LINE
shared Entry table[TABLE_LEN];
Entry table_entry(uint i) { return table[i * COPIES + gl_LocalInvocationIndex % COPIES]; }
void put_entry(uint i, Entry entry) { table[i] = entry; }
#else // finds an entry with an instruction less
shared Entry table[TABLE_ENTRIES][COPIES];
Entry table_entry(uint i) { return table[i][gl_LocalInvocationIndex % COPIES]; }
void put_entry(uint i, Entry entry) { table[i / COPIES][i % COPIES] = entry; }
#endif
// What stands at `i`.
#ifdef LEVELS
// Made, not read: workgroups that start together would all read the same few lines of memory.
uint level_of(uint i) {
    const uvec4 all = uvec4(LEVELS);
    uint word = i < 8 ? (i < 4 ? all.x : all.y) : (i < 12 ? all.z : all.w);
    return (word >> (8 * (i % 4))) & 255;
}
Entry table_at(U32x2 tables, uint i) {
    const uint low = level_of(i / COPIES & 15), high = level_of(i / COPIES >> 4);
#ifdef SMALL_HALVES
    return packHalf2x16(vec2(bitfieldExtract(ivec2(low, high), 0, 8)));
#else
    return low | (high << 16);
#endif
}
#elif defined(TABLE_OF_PAIRS)
Entry table_at(U32x2 tables, uint i) { return tables.v[TABLE_AT / 2 + i / COPIES]; }
#else
Entry table_at(U32x2 tables, uint i) { return tables.v[TABLE_AT / 2 + i / COPIES / 2][i / COPIES % 2]; }
#endif
void stage_table(U32x2 tables) {
    // All threads leave the loop at once: compilers take what follows one that they may leave one by one for a place where they
    // are apart.
    for (uint from = 0; from < TABLE_LEN; from += gl_WorkGroupSize.x) {
        const uint i = min(from + gl_LocalInvocationIndex, TABLE_LEN - 1);
        put_entry(i, table_at(tables, i));
    }
    barrier();
}
#define WEIGHT_INIT stage_table(tables);
#else
#define WEIGHT_INIT
#endif
#include "weight.glsl"
const uint GROUPS = CHUNK / 4;

// A chunk as weights, group by group.
#ifdef PIECES
struct Decoded {
    uint q[GROUPS];
    vec2 s[PIECES];
};
Decoded weight_decode(Line l, uint c) {
    Decoded d;
    weight_codes(weight_load(l, c), c, d.q, d.s);
    return d;
}
#ifdef UNSIGNED_CODES
vec4 code_values(uint q) { return vec4((uvec4(q) >> uvec4(0, 8, 16, 24)) & 255); }
#else
vec4 code_values(uint q) { return bytes4(q); }
#endif
vec4 group_values(Decoded d, uint i) { return d.s[i * PIECES / GROUPS].x * code_values(d.q[i]) + d.s[i * PIECES / GROUPS].y; }
#else
struct Decoded {
    vec4 v[GROUPS];
};
Decoded weight_decode(Line l, uint c) {
    Decoded d;
    weight_floats(l, c, d.v);
    return d;
}
vec4 group_values(Decoded d, uint i) { return d.v[i]; }
#endif
