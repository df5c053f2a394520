// y (+)= W x + b as gemv.comp, by integer dot products: each workgroup codes the activations once in 16 bits (two signed
// bytes and a scale per 32), after an RMS norm if NORM says so, then its subgroups take rows in turn. The weights of a
// subgroup's next chunks are fetched before the current ones are used, the first before the activations are there.
#version 460
#include "lib/types.glsl"
#include "lib/reduce.glsl"
#extension GL_EXT_integer_dot_product : require
#include "quant/contract.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 5) const uint K = 4096;  // inputs
layout(constant_id = 7) const uint SPAN = 4096; // inputs coded at a time: a multiple of 256, or K; below K, a subgroup takes rows once
layout(constant_id = 8) const uint DEPTH = 1; // chunks a thread has under way: 1 or 2
layout(constant_id = 9) const uint BITS = 16; // of an activation: 16 or 8
#include "lib/gemv.glsl"
const uint ONE = EXPERTS == 2 ? K / USED : K; // inputs of one matrix
const bool EVEN = K / CHUNK % 32 == 0 && EXPERTS < 2; // subgroups of up to 32 have a chunk for every thread
const uint SPANS = (K + SPAN - 1) / SPAN;
const float STEPS = BITS == 16 ? 32512.0 : 127.0; // 127 * 256: the high byte stays within a signed byte
// Units of eight activations: high bytes, low bytes, high, low. A unit of padding after every eight keeps subgroups, whose
// threads are a chunk apart, from meeting in one bank.
const uint UNITS = SPAN / 8 + SPAN / 64 + 1;
shared uvec4 x_codes[COLS * UNITS];
shared float x_scale[COLS * SPAN / 32];
#ifdef HAS_OFFSET
const bool WHOLE = GROUPS == 8 * PIECES; // a piece is a run of 32
shared vec2 x_sum[COLS * SPAN / 32]; // of each half of a run, scaled; or the scale and the sum of all of it, if pieces are WHOLE
#endif
const uint SUBGROUPS = gl_WorkGroupSize.x / 8; // at most: subgroups are of 8 threads or more
shared float squares[COLS * SUBGROUPS]; // of x, for the norm

uint packed(ivec4 q) { return uint(q.x & 255) | (uint(q.y & 255) << 8) | (uint(q.z & 255) << 16) | (uint(q.w) << 24); }
uint unit_at(uint col, uint unit) { return col * UNITS + unit + unit / 8; }

// Activations of the span as the threads hold them: vec4 t, t + size, ... of a row; zeros past the end.
const uint VECS = (SPAN / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
vec4 held[VECS], held_norm[VECS];

uint inputs_of(uint span) { return min(SPAN, K - span * SPAN); }

void hold(uint col, uint span) {
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = gl_LocalInvocationID.x + j * gl_WorkGroupSize.x;
        bool there = i < inputs_of(span) / 4;
        held[j] = there ? x.v[(x_from(K) + col * K + span * SPAN) / 4 + i] : vec4(0.0);
        if (NORM == 1) held_norm[j] = there ? norm.v[span * SPAN / 4 + i] : vec4(0.0);
    }
}

// Weighs what is held, or multiplies it by the norm's weights; the norm's scale is a factor of the sums (see find_scales). The
// eight threads that hold a run of 32 tell each other its largest where its codes will be.
void prepare(uint col, uint span) {
    float square = 0.0;
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = gl_LocalInvocationID.x + j * gl_WorkGroupSize.x;
        if (EXPERTS == 2) held[j] *= expert_weight(min(span * SPAN + 4 * i, K - 1) / ONE);
        if (NORM == 1) {
            square += dot(held[j], held[j]);
            held[j] *= held_norm[j];
        }
        vec4 a = abs(held[j]);
        if (i < inputs_of(span) / 4) x_codes[unit_at(col, i / 2)][2 * (i % 2)] = floatBitsToUint(max(max(a.x, a.y), max(a.z, a.w)));
    }
    if (NORM == 1) {
        square = subgroupAdd(square);
        uint at = col * SUBGROUPS + gl_SubgroupID;
        if (subgroupElect()) squares[at] = span == 0 ? square : squares[at] + square;
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

// Codes what is held.
void code(uint col, uint span) {
    float largest_of[VECS];
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = min(gl_LocalInvocationID.x + j * gl_WorkGroupSize.x, SPAN / 4 - 1);
        largest_of[j] = 0.0;
        [[unroll]] for (uint u = 0; u < 4; u++) {
            vec4 most = uintBitsToFloat(x_codes[unit_at(col, i / 8 * 4 + u)]);
            largest_of[j] = max(largest_of[j], max(most.x, most.z));
        }
    }
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = gl_LocalInvocationID.x + j * gl_WorkGroupSize.x;
        float largest = largest_of[j];
        float inverse = largest > 1e-30 ? STEPS / largest : 0.0;
        // Rounds: added to 1.5 * 2^23, a number of so few bits is the low end of the sum. Conversions are slow.
        ivec4 q = floatBitsToInt(held[j] * inverse + 12582912.0) - 0x4b400000;
        ivec4 high = BITS == 16 ? (q + 128) >> 8 : q;
        if (i < inputs_of(span) / 4) {
            uint unit = unit_at(col, i / 2);
            x_codes[unit][2 * (i % 2)] = packed(high);
            x_codes[unit][2 * (i % 2) + 1] = BITS == 16 ? packed(q - (high << 8)) : 0;
            if (i % 8 == 0) x_scale[col * (SPAN / 32) + i / 8] = largest / STEPS;
        }
    }
#ifdef HAS_OFFSET
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = gl_LocalInvocationID.x + j * gl_WorkGroupSize.x;
        if (i % (WHOLE ? 8 : 4) == 0 && i < inputs_of(span) / 4) {
            ivec2 high = ivec2(0), low = ivec2(0); // of the halves
            [[unroll]] for (uint u = 0; u < (WHOLE ? 4 : 2); u++) {
                ivec4 a = ivec4(x_codes[unit_at(col, i / 2 + u)]);
                high[u / 2] += dotPacked4x8EXT(0x01010101, a.x) + dotPacked4x8EXT(0x01010101, a.z);
                low[u / 2] += dotPacked4x8EXT(0x01010101, a.y) + dotPacked4x8EXT(0x01010101, a.w);
            }
            float scale = largest_of[j] / STEPS;
            precise vec2 sums = scale * vec2(BITS == 16 ? high * 256 + low : high);
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
const uint TABLE_LOADS = (TABLE_PAIRS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
#endif
Line line[LINES];
Raw raw[2][LINES];
float acc[LINES * COLS], added[ROWS * COLS];

// Chunks are counted through all of a row's experts; a matrix knows only its own.
uint chunk_of_one(uint c) { return EXPERTS == 2 ? c % (ONE / CHUNK) : c; }
uint col_of(uint c, uint i) { return EXPERTS == 2 ? c / (ONE / CHUNK) * ONE + chunk_col(chunk_of_one(c), i) : chunk_col(c, i); }

// A chunk of the row: the last, if c is past the end.
uint in_row(uint c) { return EVEN && SPANS == 1 && gl_SubgroupSize <= 32 ? c : min(c, K / CHUNK - 1); }

void fetch(uint slot, uint first, uint c) {
    c = in_row(c);
    if (EXPERTS == 2) find_lines(first, expert_row(c / (ONE / CHUNK) * ONE, ONE), ONE, line);
    [[unroll]] for (uint r = 0; r < LINES; r++) raw[slot][r] = weight_load(line[r], chunk_of_one(c));
}

#ifdef UNSIGNED_CODES
int dot4(uint q, int a) { return dotPacked4x8EXT(a, q); }
#else
int dot4(uint q, int a) { return dotPacked4x8EXT(int(q), a); }
#endif

void multiply(uint c, uint span, uint q[LINES][GROUPS], vec2 s[LINES][PIECES]) {
    const uint HALVES = GROUPS / PIECES / 2; // units per piece
    [[unroll]] for (uint col = 0; col < COLS; col++) {
        [[unroll]] for (uint p = 0; p < PIECES; p++) {
            uint at = col_of(c, p * 2 * HALVES) - span * SPAN, run = col * (SPAN / 32) + at / 32;
            uint unit = unit_at(col, at / 8); // units of a run are neighbours
            ivec2 dots[LINES];
            [[unroll]] for (uint r = 0; r < LINES; r++) dots[r] = ivec2(0);
            [[unroll]] for (uint h = 0; h < HALVES; h++) {
                ivec4 a = ivec4(x_codes[unit + h]);
                [[unroll]] for (uint r = 0; r < LINES; r++) {
                    uint i = (p * HALVES + h) * 2;
                    dots[r].x += dot4(q[r][i], a.x) + dot4(q[r][i + 1], a.z);
                    if (BITS == 16) dots[r].y += dot4(q[r][i], a.y) + dot4(q[r][i + 1], a.w);
                }
            }
#ifdef HAS_OFFSET
            vec2 sums = x_sum[run];
            float d = WHOLE ? sums.x : x_scale[run], sum = WHOLE ? sums.y : at % 32 < 16 ? sums.x : sums.y;
#else
            float d = x_scale[run];
#endif
            [[unroll]] for (uint r = 0; r < LINES; r++) {
                acc[r * COLS + col] += d * s[r][p].x * float(BITS == 16 ? dots[r].x * 256 + dots[r].y : dots[r].x);
#ifdef HAS_OFFSET
                acc[r * COLS + col] += s[r][p].y * sum;
#endif
            }
        }
    }
}

// Uses chunk c and asks for chunk `ahead` of the rows from `next` on in its place.
void take(uint slot, uint c, uint next, uint ahead, uint span, uint to) {
    uint q[LINES][GROUPS];
    vec2 s[LINES][PIECES];
    [[unroll]] for (uint r = 0; r < LINES; r++) weight_codes(raw[slot][r], gl_SubgroupInvocationID, q[r], s[r]);
    fetch(slot, next, ahead);
    if (in_row(c) == c && (SPANS == 1 || c < to)) multiply(c, span, q, s);
}

// Asks for what the sums will be added to.
void begin(uint first) {
    [[unroll]] for (uint i = 0; i < ROWS * COLS; i++) added[i] = before(first + i / COLS, i % COLS);
}

void finish(uint first) {
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        [[unroll]] for (uint col = 0; col < COLS; col++) {
            float sum = subgroupAdd(acc[r * COLS + col]), other = 0.0;
            if (NORM == 1) sum *= scales[col];
            if (GATED == 1) other = subgroupAdd(acc[(ROWS * (PARTS - 1) + r) * COLS + col]) * (NORM == 1 ? scales[col] : 1.0);
            if (subgroupElect() && first + r < m) store(first + r, col, sum, other, added[r * COLS + col]);
        }
    }
    [[unroll]] for (uint i = 0; i < LINES * COLS; i++) acc[i] = 0.0;
}

void main() {
    const uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
    uint step = gl_NumWorkGroups.x * gl_NumSubgroups * ROWS;
    uint first = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * ROWS;
    // What everything waits for is asked for first.
    ask_route();
    hold(0, 0);
#ifdef TABLE_WORDS
    uvec2 held_table[TABLE_LOADS];
    [[unroll]] for (uint i = 0; i < TABLE_LOADS; i++) {
        held_table[i] = table_pair(tables, min(gl_LocalInvocationID.x + i * gl_WorkGroupSize.x, TABLE_PAIRS - 1));
    }
#endif
    stage_route();
    find_lines(first, expert_row(0, ONE), ONE, line);
    fetch(0, first, lane);
    if (DEPTH > 1) fetch(1, first, lane + lanes);
#ifdef TABLE_WORDS
    [[unroll]] for (uint i = 0; i < TABLE_LOADS; i++) {
        table[min(gl_LocalInvocationID.x + i * gl_WorkGroupSize.x, TABLE_PAIRS - 1)] = held_table[i];
    }
#endif
    [[unroll]] for (uint i = 0; i < LINES * COLS; i++) acc[i] = 0.0;
    for (uint span = 0; span < SPANS; span++) {
        if (span > 0) barrier();
        [[unroll]] for (uint col = 0; col < COLS; col++) {
            if (span + col > 0) hold(col, span);
            prepare(col, span);
            code(col, span);
        }
        barrier();
        if (NORM == 1 && span + 1 == SPANS) find_scales();
        uint from = span * SPAN / CHUNK, to = min((span + 1) * SPAN, K) / CHUNK;
        uint turns = (to - from + lanes - 1) / lanes;
        while (first < m || SPANS > 1) {
            if (SPANS == 1 || span == 0) begin(first);
            for (uint turn = 0; turn < turns; turn += DEPTH) {
                bool last = turn + DEPTH >= turns, more = first + step < m;
                uint at = from + turn * lanes + lane;
                uint ahead = last ? (SPANS > 1 ? to : from) + lane : at + DEPTH * lanes;
                uint next = last && more && SPANS == 1 ? first + step : first; // the same again, if there are no more, costs least
                if (last && SPANS == 1) find_lines(next, expert_row(0, ONE), ONE, line);
                take(0, at, next, ahead, span, to);
                if (DEPTH > 1) take(1, at + lanes, next, ahead + lanes, span, to);
            }
            if (SPANS > 1) break;
            finish(first);
            first += step;
        }
    }
    if (SPANS > 1 && first < m) finish(first);
}
