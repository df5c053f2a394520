// What products by cooperative matrices share: weights of 16 rows by 16 inputs, activations of 16 inputs by WIDE rows of the
// step, decoded weights as halves, and what becomes of the sums.
#include "lib/group.glsl"
const uint TALL = 16;
const uint EACH = TALL * WIDE / 32; // halves of a thread in a matrix of activations
const uint SHARE = 8 / EACH;        // such matrices in a unit of 16 bytes
const uint SUBGROUPS = gl_WorkGroupSize.x / 32;
const uint HEIGHT = SUBGROUPS / (SPLIT * PARTS); // runs of 16 outputs that a workgroup takes at a time
#define Weights coopmat<float16_t, gl_ScopeSubgroup, TALL, TALL, gl_MatrixUseA>
#define Activations coopmat<float16_t, gl_ScopeSubgroup, TALL, WIDE, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, TALL, WIDE, gl_MatrixUseAccumulator>

// Where the units of all threads start: run `unit` of SHARE matrices of inputs, matrix `wide` of `wides`.
uint unit_of(uint unit, uint wide, uint wides) { return (unit * wides + wide) * 32; }

Activations activations(uvec4 unit, uint which) {
    Activations b;
    [[unroll]] for (uint i = 0; i < EACH; i += 2) {
        f16vec2 two = unpackFloat2x16(unit[(which * EACH + i) / 2]);
        b[i] = two.x;
        b[i + 1] = two.y;
    }
    return b;
}

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

// With EXPERTS the columns of a workgroup are a run of pairs that use one expert, of a list of m0 runs (deal.comp).
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

// Sum of what SPLIT subgroups from `from` on have left in shared memory.
float summed(uint from, uint row, uint col) {
    float sum = 0.0;
    [[unroll]] for (uint s = 0; s < SPLIT; s++) {
        uint at = (from + s) * ROOM * 4 + col * TALL + row;
        sum += uintBitsToFloat(tile[at / 4][at % 4]);
    }
    return sum;
}

#ifdef LINKED
shared float norm_factors[16];

// Hands on an output of a row; 16 threads that follow each other have those of one run.
void send(uint output_row, uint col, float result, bool there) {
    float square = there ? result * result : 0.0;
    [[unroll]] for (uint by = 1; by < TALL; by *= 2) square += subgroupShuffleXor(square, by);
    if (!there) return;
    if (output_row % TALL == 0) F32(link.v[LINK_SQUARES]).v[col * (m / TALL) + output_row / TALL] = square;
    const float weight = F32(link.v[LINK_NORM]).v[output_row], by = weight / F32(link.v[LINK_POWERS]).v[col];
    const uint16_t sent = uint16_t(packHalf2x16(vec2(clamp(result * by, -65504.0, 65504.0), 0.0)));
    const uint e = output_row % 4, in_group = e % 2 * 2 + e / 2;
    Halves(link.v[LINK_CODES]).v[few_at(SENT, TILES, col, output_row / 4) * 4 + in_group] = sent;
    if (SENT_2 > 0) Halves(link.v[LINK_CODES + 1]).v[few_at(SENT_2, TILES, col, output_row / 4) * 4 + in_group] = sent;
}
#endif

// Stores the sums of the workgroup's outputs from `first` on, of AT_ONCE matrices, which all subgroups have left in shared memory.
void finish(uint first, uint wide0) {
    const uint n = flags >> 8 & 0xffff;
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < HEIGHT * TALL * WIDE * AT_ONCE; i += gl_WorkGroupSize.x) {
        uint row = i % TALL, near = i / TALL % (WIDE * AT_ONCE), high = i / (TALL * WIDE * AT_ONCE);
        uint col = wide0 * WIDE + near, output_row = first + high * TALL + row;
        const uint pair = EXPERTS > 0 ? pair_at(col) : 0;
        const bool there = output_row < m && (EXPERTS > 0 ? pair != NONE : col < n);
#ifdef LINKED
        float result = 0.0;
#endif
        if (there) {
#ifdef LINKED
            float scale = (NORMED == 1 ? norm_factors[col] : norm.v[col / 4][col % 4]) / GAIN;
#else
            float scale = norm.v[col / 4][col % 4] / GAIN;
#endif
            float sum = summed(high * SPLIT * PARTS, row, near) * scale;
            float other = GATED == 1 ? summed((high * PARTS + 1) * SPLIT, row, near) * scale : 0.0;
#ifdef PASSED_SCALE
            if (PASSED > 0) {
                float passed = clamp(product(output_row, sum, other) * PASSED_SCALE, -65504.0, 65504.0);
                uint e = output_row % 4, at = few_at(PASSED, TILES, col, output_row / 4) * 4 + e % 2 * 2 + e / 2;
                Halves(y).v[at] = uint16_t(packHalf2x16(vec2(passed, 0.0)));
            } else if (SENT > 0) {
                result = before(output_row, col) + product(output_row, sum, other);
                y.v[output_at(output_row, col)] = result;
            } else
#endif
            {
                if (EXPERTS > 0) {
                    sum *= routed_of(GATED == 1 ? 2 : 1, pair);
                    other *= GATED == 1 ? routed_of(3, pair) : 1.0;
                }
                store(output_row, EXPERTS > 0 ? pair : col, sum, other, before(output_row, col));
            }
        }
#ifdef LINKED
        if (SENT > 0) send(output_row, col, result, there);
#endif
    }
    barrier();
}
