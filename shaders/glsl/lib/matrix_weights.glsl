// The left operand of products by cooperative matrices: weights of a format, decoded to halves by the threads that hold them.
#ifdef SMALL
const float GAIN = PART;
uint magic() { return 0; }
struct Coded {
    Small w;
    float16_t factor; // of the block
};
#elif defined(LEVEL_HALVES)
const float GAIN = 64.0; // as below
uint magic() { return 0; }
struct Coded {
    Raw raw;
    f16vec2 scale[PIECES];
};
#elif defined(PIECES)
const float GAIN = 64.0; // keeps small weights from the subnormal halves
// As halves, a byte with these bits above it is 1024 more than it is, or 1152 if signed, its sign turned. What is added to them is
// zero, which the compiler cannot know: a constant would cost an instruction more for every two weights.
#ifdef UNSIGNED_CODES
uint magic() { return 0x64006400u ^ (flags >> 24); }
const float16_t BASE = float16_t(1024.0);
#else
uint magic() { return 0x64806480u ^ (flags >> 24); }
const float16_t BASE = float16_t(1152.0);
#endif
// Weights 0, 2, 1, 3 of a group as halves: the order of packed activations, too.
uvec2 halves_of(uint q, uint magic, f16vec2 scale, f16vec2 offset) {
    f16vec2 even = unpackFloat2x16((q & 0x00ff00ffu) ^ magic) - BASE;
    f16vec2 odd = unpackFloat2x16(((q >> 8) & 0x00ff00ffu) ^ magic) - BASE;
    return uvec2(packFloat2x16(fma(even, scale, offset)), packFloat2x16(fma(odd, scale, offset)));
}
struct Coded {
    uint q[GROUPS];
    f16vec2 scale[PIECES], offset[PIECES];
};
#else
const float GAIN = 1.0;
uint magic() { return 0; }
#endif

// With EXPERTS the columns of a workgroup are a tile of pairs that use one expert, of a list of m0 tiles (moe_permute.comp).
uint run_expert;
uint pair_at(uint col) { return U32(uvec2(b1)).v[m0 + col]; }
float routed_of(uint what, uint pair) { return b2.v[pair / USED * 4 * USED + what * USED + pair % USED]; }

// A chunk as memory holds it.
struct Next {
#ifdef PIECES
    Raw raw;
#else
    vec4 v[GROUPS];
#endif
};
Line line_at(uint row, uint part) {
    row = min(row, m - 1);
    if (EXPERTS > 0) row += run_expert * m;
    if (GATED == 1) return line_of(part == 0 ? w0 : w1, row, K);
    if (EXPERTS > 0) return line_of(w0, row, K);
    return line_of(row < m0 ? w0 : row < m01 ? w1 : w2, row < m0 ? row : row < m01 ? row - m0 : row - m01, K);
}
uint known(uint c) { return min(c, K / CHUNK - 1); }
Next fetch(Line l, uint c) {
    Next next;
#ifdef PIECES
    next.raw = weight_load(l, known(c));
#else
    weight_floats(l, known(c), next.v);
#endif
    return next;
}

#ifdef SMALL
Coded coded(Next next, uint c) {
    Coded d;
    d.factor = weight_small(next.raw, known(c), d.w);
    return d;
}
uvec2 group_halves(Coded d, uint i, uint magic) {
    const uint piece = small_piece(i);
    float16_t scale = d.w.scale[piece / 2][piece % 2], offset = d.w.offset[piece / 2][piece % 2];
    uvec2 codes = small_codes(d.w, i);
    f16vec2 even = unpackFloat2x16(codes.x), odd = unpackFloat2x16(codes.y);
    precise f16vec2 a = fma(even, f16vec2(scale), f16vec2(offset)), b = fma(odd, f16vec2(scale), f16vec2(offset));
    return uvec2(packFloat2x16(a), packFloat2x16(b));
}
#elif defined(LEVEL_HALVES)
Coded coded(Next next, uint c) {
    Coded d;
    uint unused[GROUPS];
    vec2 s[PIECES];
    weight_codes(next.raw, known(c), unused, s);
    d.raw = next.raw;
    [[unroll]] for (uint p = 0; p < PIECES; p++) d.scale[p] = f16vec2(s[p].x * GAIN);
    return d;
}
uvec2 group_halves(Coded d, uint i, uint magic) {
    const uvec2 levels = level_halves(level_word(d.raw, i), i / LEVEL_APART % 2 == 1);
    const f16vec2 scale = d.scale[i * PIECES / GROUPS];
    return uvec2(packFloat2x16(unpackFloat2x16(levels.x) * scale), packFloat2x16(unpackFloat2x16(levels.y) * scale));
}
#elif defined(PIECES)
Coded coded(Next next, uint c) {
    Coded d;
    vec2 s[PIECES];
    weight_codes(next.raw, known(c), d.q, s);
    [[unroll]] for (uint p = 0; p < PIECES; p++) {
        d.scale[p] = f16vec2(s[p].x * GAIN);
        d.offset[p] = f16vec2(s[p].y * GAIN);
    }
    return d;
}
uvec2 group_halves(Coded d, uint i, uint magic) {
    return halves_of(d.q[i], magic, d.scale[i * PIECES / GROUPS], d.offset[i * PIECES / GROUPS]);
}
#else
#define Coded Next
Coded coded(Next next, uint c) { return next; }
uvec2 group_halves(Coded d, uint i, uint magic) { return uvec2(packHalf2x16(d.v[i].xz), packHalf2x16(d.v[i].yw)); }
#endif
