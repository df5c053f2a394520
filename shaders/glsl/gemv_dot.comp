// y (+)= W x + b as gemv.comp, by integer dot products: each workgroup codes the activations once in BITS bits (and a
// scale per 32), after an RMS norm if NORM says so, then its subgroups take rows in turn. The weights of a
// subgroup's next chunks are fetched before the current ones are used, the first before the activations are there.
#version 460
#include "lib/types.glsl"
#include "lib/reduce.glsl"
#extension GL_EXT_integer_dot_product : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(local_size_x_id = 0) in;
#include "quant/contract.glsl"
layout(constant_id = 5) const uint K = 4096;  // inputs
layout(constant_id = 7) const uint SPAN = 4096; // inputs coded at a time: a multiple of 256, or K; below K, a subgroup takes rows once
layout(constant_id = 8) const uint DEPTH = 1; // chunks a thread has under way: 1 or 2
layout(constant_id = 9) const uint BITS = 16; // of an activation: 16 or 8
layout(constant_id = 24) const uint SLICES = 1; // of a span, that threads hold one after the other until they are coded
layout(constant_id = 23) const uint APART = 0; // 1: a subgroup takes gate and then up, not both at a time
#include "lib/gemv.glsl"
const uint EACH = APART == 1 ? ROWS : LINES; // rows of matrices at a time
const uint ONE = EXPERTS == 2 ? K / USED : K; // inputs of one matrix
const bool EVEN = K / CHUNK % 32 == 0 && EXPERTS < 2; // subgroups of up to 32 have a chunk for every thread
const uint SPANS = (K + SPAN - 1) / SPAN;
const uint UNITS = SPAN * BITS / 128 + SPAN * BITS / 1024 + 1; // of a row
shared uvec4 x_q[COLS * UNITS];
const uint SCALED = 32;
#include "lib/quantize.glsl"
shared float x_scale[COLS * SPAN / 32];
#ifdef HAS_OFFSET
const bool WHOLE = GROUPS == 8 * PIECES; // a piece is a run of 32
shared vec2 x_sum[COLS * SPAN / 32]; // of each half of a run, scaled; or the scale and the sum of all of it, if pieces are WHOLE
#endif
const uint SUBGROUPS = gl_WorkGroupSize.x / 8; // at most: subgroups are of 8 threads or more
shared float squares[COLS * SUBGROUPS]; // of x, for the norm

// Activations of a slice as the threads hold them: vec4 t, t + size, ... of a row; zeros past the end.
const uint VECS = (SPAN / 4 + SLICES * gl_WorkGroupSize.x - 1) / (SLICES * gl_WorkGroupSize.x);
vec4 held[VECS], held_norm[VECS];
uint held_at(uint slice, uint j) { return gl_LocalInvocationID.x + (slice * VECS + j) * gl_WorkGroupSize.x; }

uint inputs_of(uint span) { return min(SPAN, K - span * SPAN); }

void hold(uint col, uint span, uint slice) {
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = held_at(slice, j);
        bool there = i < inputs_of(span) / 4;
        held[j] = there ? x.v[(x_from(K) + col * K + span * SPAN) / 4 + i] : vec4(0.0);
        if (NORM == 1) held_norm[j] = there ? norm.v[span * SPAN / 4 + i] : vec4(0.0);
    }
}

// Weighs what is held, or multiplies it by the norm's weights; the norm's scale is a factor of the sums (see find_scales).
void prepare(uint col, uint span, uint slice) {
    float square = 0.0;
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = held_at(slice, j);
        if (EXPERTS == 2) held[j] *= expert_weight(min(span * SPAN + 4 * i, K - 1) / ONE);
        if (NORM == 1) {
            square += dot(held[j], held[j]);
            held[j] *= held_norm[j];
        }
        if (i < inputs_of(span) / 4) tell_largest(col * UNITS, i, held[j]);
    }
    if (NORM == 1) {
        square = subgroupAdd(square);
        uint at = col * SUBGROUPS + gl_SubgroupID;
        if (subgroupElect()) squares[at] = span + slice == 0 ? square : squares[at] + square;
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

// Codes what is held.
void code(uint col, uint span, uint slice) {
    float largest_of[VECS];
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        largest_of[j] = largest_told(col * UNITS, min(held_at(slice, j), SPAN / 4 - 1));
    }
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = held_at(slice, j);
        if (i < inputs_of(span) / 4) {
            put_quantized(col * UNITS, i, held[j], largest_of[j]);
            if (i % 8 == 0) x_scale[col * (SPAN / 32) + i / 8] = largest_of[j] / STEPS;
        }
    }
#ifdef HAS_OFFSET
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = held_at(slice, j);
        if (i % (WHOLE ? 8 : 4) == 0 && i < inputs_of(span) / 4) {
            uint at = col * UNITS + unit_of(i);
            float scale = largest_of[j] / STEPS;
            precise vec2 sums = scale * vec2(sum_of_half(at), WHOLE ? sum_of_half(at + 16 / UNIT) : 0);
            precise float all = sums.x + sums.y;
            if (WHOLE) x_sum[col * (SPAN / 32) + i / 8] = vec2(scale, all);
            else x_sum[col * (SPAN / 32) + i / 8][i / 4 % 2] = sums.x;
        }
    }
#endif
}

float scales[COLS]; // of the norm
void find_scales() {
    [[unroll]] for (uint col = 0; col < COLS; col++) {
        float square = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) square += squares[col * SUBGROUPS + i];
        scales[col] = NORM == 1 ? 1.0 / sqrt(subgroupAdd(square) / float(K) + eps) : 1.0;
    }
}

#ifdef TABLE_WORDS
const uint TABLE_LOADS = (TABLE_LEN + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
#endif
Line line[LINES];
Raw raw[2][LINES];
float acc[LINES * COLS];
const uint OUTPUTS = ROWS * COLS; // of a subgroup at a time, each of which a thread of its own stores
float added[(OUTPUTS + 7) / 8];

// Chunks are counted through all of a row's experts; a matrix knows only its own.
uint chunk_of_one(uint c) { return EXPERTS == 2 ? c % (ONE / CHUNK) : c; }
uint col_of(uint c, uint i) { return EXPERTS == 2 ? c / (ONE / CHUNK) * ONE + chunk_col(chunk_of_one(c), i) : chunk_col(c, i); }

// A chunk of the row: the last, if c is past the end.
uint in_row(uint c) { return EVEN && SPANS == 1 && gl_SubgroupSize <= 32 ? c : min(c, K / CHUNK - 1); }

// The lines of the outputs from `first` on, of gate (0) or up if these are apart.
void find(uint first, uint part) {
    if (APART == 0) {
        find_lines(first, expert_row(0, ONE), ONE, line);
        return;
    }
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        if (WHOLE_ROWS == 1 && r > 0) line[r] = line_after(line[0], r, ONE);
        else line[r] = line_of(part == 0 ? w0 : w1, expert_row(0, ONE) + min(first + r, m - 1), ONE);
    }
}

void fetch(uint slot, uint first, uint c) {
    c = in_row(c);
    if (EXPERTS == 2) find_lines(first, expert_row(c / (ONE / CHUNK) * ONE, ONE), ONE, line);
    [[unroll]] for (uint r = 0; r < EACH; r++) raw[slot][r] = weight_load(line[r], chunk_of_one(c));
}

#define DOT4 dot4
#define OFFSET offset
#define DOTS dots_of
#include "lib/dot.glsl"

void multiply(uint c, uint span, uint q[EACH][GROUPS], vec2 s[EACH][PIECES]) {
    const uint UNITS_EACH = CHUNK / UNIT / PIECES; // of a piece
    [[unroll]] for (uint col = 0; col < COLS; col++) {
        [[unroll]] for (uint p = 0; p < PIECES; p++) {
            uint at = col_of(c, p * (GROUPS / PIECES)) - span * SPAN, run = col * (SPAN / 32) + at / 32;
            uint unit = col * UNITS + unit_at(at / UNIT);
            ivec2 dots[EACH];
            [[unroll]] for (uint r = 0; r < EACH; r++) dots[r] = ivec2(0);
            [[unroll]] for (uint h = 0; h < UNITS_EACH; h++) {
                ivec4 a = ivec4(x_q[unit + h]);
                const uint i = (p * UNITS_EACH + h) * (UNIT / 4);
                [[unroll]] for (uint r = 0; r < EACH; r++) dots[r] = DOTS(dots[r], UNIT_WORDS(q[r], i), a);
            }
#ifdef HAS_OFFSET
            vec2 sums = x_sum[run];
            float d = WHOLE ? sums.x : x_scale[run], sum = WHOLE ? sums.y : at % 32 < 16 ? sums.x : sums.y;
#else
            float d = x_scale[run];
#endif
            [[unroll]] for (uint r = 0; r < EACH; r++) {
                acc[r * COLS + col] += d * s[r][p].x * float(whole(dots[r]));
#ifdef HAS_OFFSET
                acc[r * COLS + col] += offset(s[r][p].x, s[r][p].y) * sum;
#endif
            }
        }
    }
}

// Uses chunk c and asks for chunk `ahead` of the rows from `next` on in its place.
void take(uint slot, uint c, uint next, uint ahead, uint span, uint to) {
    uint q[EACH][GROUPS];
    vec2 s[EACH][PIECES];
    [[unroll]] for (uint r = 0; r < EACH; r++) weight_codes(raw[slot][r], gl_SubgroupInvocationID, q[r], s[r]);
    fetch(slot, next, ahead);
    if (in_row(c) == c && (SPANS == 1 || c < to)) multiply(c, span, q, s);
}

// The sums of gate and of up change places: those that `multiply` adds to are the first.
void turn_parts() {
    [[unroll]] for (uint i = 0; i < EACH * COLS; i++) {
        const float first = acc[i];
        acc[i] = acc[EACH * COLS * APART + i];
        acc[EACH * COLS * APART + i] = first;
    }
}

// Sums over the subgroup, if they are 1, 2, 4 or 8, come to threads of their own.
const uint COUNT = LINES * COLS;
const bool DEALT = (COUNT & (COUNT - 1)) == 0 && COUNT <= 8;

// Asks for what the sums will be added to.
void begin(uint first) {
    if (DEALT) {
        const uint i = gl_SubgroupInvocationID % COUNT;
        added[0] = before(first + i / COLS, i % COLS);
        return;
    }
    for (uint i = gl_SubgroupInvocationID; i < OUTPUTS; i += gl_SubgroupSize) {
        added[i / gl_SubgroupSize] = before(first + i / COLS, i % COLS);
    }
}

// The i-th sum, to all threads that are i modulo their number. At every step a thread keeps half of what it has, and sends the other
// half to one that keeps that.
float dealt_sum() {
    [[unroll]] for (uint by = 1; by < COUNT; by *= 2) {
        const bool odd = (gl_SubgroupInvocationID & by) != 0;
        [[unroll]] for (uint i = 0; i < COUNT / (2 * by); i++) {
            const float kept = odd ? acc[2 * i + 1] : acc[2 * i], sent = odd ? acc[2 * i] : acc[2 * i + 1];
            acc[i] = kept + subgroupShuffleXor(sent, by);
        }
    }
    float sum = acc[0];
    [[unroll]] for (uint by = COUNT; by < 128; by *= 2) {
        if (by < gl_SubgroupSize) sum += subgroupShuffleXor(sum, by);
    }
    return sum;
}

void keep(uint first, uint i, float sum, float other, float scale) {
    if (NORM == 1) {
        sum *= scale;
        other *= scale;
    }
    const float to = added[DEALT ? 0 : i / gl_SubgroupSize];
    if (first + i / COLS < m) store(first + i / COLS, i % COLS, sum, other, to);
}

void finish(uint first) {
    const uint lane = gl_SubgroupInvocationID;
    if (DEALT) {
        const float sum = dealt_sum(), other = GATED == 1 ? subgroupShuffleXor(sum, OUTPUTS) : 0.0;
        float scale = scales[0];
        [[unroll]] for (uint j = 1; j < COLS; j++) scale = lane % COLS == j ? scales[j] : scale;
        if (lane < OUTPUTS) keep(first, lane, sum, other, scale);
    } else {
        [[unroll]] for (uint i = 0; i < COUNT; i++) acc[i] = subgroupAdd(acc[i]);
        for (uint i = lane; i < OUTPUTS; i += gl_SubgroupSize) {
            float sum = acc[0], other = acc[COUNT - OUTPUTS], scale = scales[0];
            [[unroll]] for (uint j = 1; j < OUTPUTS; j++) {
                sum = i == j ? acc[j] : sum;
                other = i == j ? acc[COUNT - OUTPUTS + j] : other;
                scale = i % COLS == j ? scales[j % COLS] : scale;
            }
            keep(first, i, sum, other, scale);
        }
    }
    [[unroll]] for (uint i = 0; i < COUNT; i++) acc[i] = 0.0;
}

void main() {
    const uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
    uint step = gl_NumWorkGroups.x * gl_NumSubgroups * ROWS;
    uint first = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * ROWS;
    // What everything waits for is asked for first.
    ask_route();
    hold(0, 0, 0);
#ifdef TABLE_WORDS
    Entry held_table[TABLE_LOADS];
    [[unroll]] for (uint i = 0; i < TABLE_LOADS; i++) {
        held_table[i] = table_at(tables, min(gl_LocalInvocationID.x + i * gl_WorkGroupSize.x, TABLE_LEN - 1));
    }
#endif
    stage_route();
    find(first, 0);
    fetch(0, first, lane);
    if (DEPTH > 1) fetch(1, first, lane + lanes);
#ifdef TABLE_WORDS
    [[unroll]] for (uint i = 0; i < TABLE_LOADS; i++) {
        put_entry(min(gl_LocalInvocationID.x + i * gl_WorkGroupSize.x, TABLE_LEN - 1), held_table[i]);
    }
#endif
    [[unroll]] for (uint i = 0; i < LINES * COLS; i++) acc[i] = 0.0;
    for (uint span = 0; span < SPANS; span++) {
        if (span > 0) barrier();
        [[unroll]] for (uint col = 0; col < COLS; col++) {
            for (uint slice = 0; slice < SLICES; slice++) {
                if (span + col + slice > 0) hold(col, span, slice);
                prepare(col, span, slice);
                code(col, span, slice);
            }
        }
        barrier();
        if (NORM == 1 && span + 1 == SPANS) find_scales();
        uint from = span * SPAN / CHUNK, to = min((span + 1) * SPAN, K) / CHUNK;
        uint turns = (to - from + lanes - 1) / lanes, part = 0;
        while (first < m || SPANS > 1) {
            const bool last = APART == 0 || part == 1;
            if (part == 0 && (SPANS == 1 || span == 0)) begin(first);
            uint turn = 0, at = from + lane;
            for (; turn + DEPTH < turns; turn += DEPTH) {
                take(0, at, first, at + DEPTH * lanes, span, to);
                if (DEPTH > 1) take(1, at + lanes, first, at + 3 * lanes, span, to);
                at += DEPTH * lanes;
            }
            bool more = last && first + step < m;
            uint next = more && SPANS == 1 ? first + step : first; // the same again, if there are no more, costs least
            uint ahead = (SPANS > 1 && last ? to : from) + lane;
            if (SPANS == 1 || APART == 1) find(next, last ? 0 : 1);
            take(0, at, next, ahead, span, to);
            if (DEPTH > 1) take(1, at + lanes, next, ahead + lanes, span, to);
            if (APART == 1) {
                turn_parts();
                part = 1 - part;
                if (part == 1) continue;
            }
            if (SPANS > 1) break;
            finish(first);
            first += step;
        }
    }
    if (SPANS > 1 && first < m) finish(first);
}
