// A run of products of one activation row in one dispatch: the stages of a program, in order. There is a workgroup per
// multiprocessor, and all of them run at once; between stages they wait for each other at a counter in memory. Each asks for
// the first weights of its next rows before it waits, so that memory does not rest while a stage ends, the counter rises and
// the activations are coded. Sums are made as in gemv_dot.comp.
#version 460
#include "lib/types.glsl"
#include "quant/contract.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_integer_dot_product : require
#if defined HAS_OFFSET || defined SECOND
#define SUMS
#endif
#define RUN run_1
#define DOT4 dot4_1
#define PRODUCT product_1
#define LINE line_1
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint K_MOST = 4096;   // inputs of a stage, at most
layout(constant_id = 2) const uint K_NORMED = 4096; // of one that norms them
layout(constant_id = 3) const uint DEPTH = 4;       // chunks a thread has under way
layout(constant_id = 4) const uint DEPTH_2 = 3;     // of the second format
layout(constant_id = 5) const uint SPIN = 1 << 22;  // looks at the counter before a workgroup gives up
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Met { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Met4 { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent volatile buffer Counter { uint v[]; };
layout(push_constant) uniform Push {
    U32 program;     // [stages, STAGE_WORDS]
    Counter counter; // workgroups that ended a stage; zero between dispatches
    U32 fault;       // 1 if a workgroup gave up
    uint stages;
};
// Words of a stage; addresses take two.
const uint AT_W = 0, AT_B = 6, AT_X = 12, AT_Y = 14, AT_NORM = 16; // as Push of lib/gemv.glsl
const uint AT_K = 18, AT_M0 = 19, AT_M01 = 20, AT_M = 21, AT_EPS = 22, AT_SCALE = 23;
const uint AT_FIRST = 26; // subgroup that takes the first row
const uint AT_FLAGS = 27;
const uint STAGE_WORDS = 28;
// Flags: bit i: bias i is there, then these.
const uint GATED = 8, ADD = 16, NORM = 32, WAIT = 64, CODE = 128, OTHER_FORMAT = 256;

const float STEPS = 32512.0; // 127 * 256: the high byte stays within a signed byte
const uint UNITS = K_MOST / 8 + K_MOST / 64 + 1; // see gemv_dot.comp
shared uvec4 x_codes[UNITS];
shared float x_scale[K_MOST / 32];
shared vec2 x_sum[K_MOST / 32];
shared float squares[gl_WorkGroupSize.x / 8];
shared uint words[2][STAGE_WORDS];
shared bool given_up;
uint stage; // which half of `words`

uint word(uint i) { return subgroupBroadcastFirst(words[stage][i]); }
uvec2 address(uint i) { return uvec2(word(i), word(i + 1)); }
float number(uint i) { return uintBitsToFloat(word(i)); }
bool is(uint flag) { return (word(AT_FLAGS) & flag) != 0; }

uint packed(ivec4 q) { return uint(q.x & 255) | (uint(q.y & 255) << 8) | (uint(q.z & 255) << 16) | (uint(q.w) << 24); }
uint unit_at(uint unit) { return unit + unit / 8; }

// Activations as the threads hold them: vec4 t, t + size, ...; zeros past the end.
const uint VECS = (K_MOST / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint NORM_VECS = (K_NORMED / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
vec4 held[VECS], held_norm[NORM_VECS];
float norm_scale;

void hold_norm() {
    uint vecs = word(AT_K) / 4;
    if (!is(NORM)) return;
    F32x4 norm = F32x4(address(AT_NORM));
    [[unroll]] for (uint j = 0; j < NORM_VECS; j++) {
        uint i = gl_LocalInvocationID.x + j * gl_WorkGroupSize.x;
        if (i < vecs) held_norm[j] = norm.v[i];
    }
}

// Waits until all workgroups have ended the stages before this one.
void await_others(uint s) {
    if (!is(WAIT)) return;
    if (gl_LocalInvocationID.x == 0) {
        uint wanted = s * gl_NumWorkGroups.x, looks = 0;
        while (counter.v[0] < wanted && !given_up) {
            if (++looks == SPIN) {
                given_up = true;
                fault.v[0] = 1;
            }
        }
        memoryBarrierBuffer();
    }
    barrier();
    memoryBarrierBuffer();
}

// Codes the activations, as gemv_dot.comp does.
void code() {
    if (!is(CODE)) return;
    uint vecs = word(AT_K) / 4, t = gl_LocalInvocationID.x;
    bool normed = is(NORM);
    Met4 x = Met4(address(AT_X));
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i < vecs) held[j] = x.v[i];
    }
    float square = 0.0;
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i < vecs) {
            if (normed && j < NORM_VECS) {
                square += dot(held[j], held[j]);
                held[j] *= held_norm[min(j, NORM_VECS - 1)];
            }
            vec4 a = abs(held[j]);
            x_codes[unit_at(i / 2)][2 * (i % 2)] = floatBitsToUint(max(max(a.x, a.y), max(a.z, a.w)));
        }
    }
    if (normed) {
        square = subgroupAdd(square);
        if (subgroupElect()) squares[gl_SubgroupID] = square;
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    float largest_of[VECS];
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        largest_of[j] = 0.0;
        if (i < vecs) {
            [[unroll]] for (uint u = 0; u < 4; u++) {
                vec4 most = uintBitsToFloat(x_codes[unit_at(i / 8 * 4 + u)]);
                largest_of[j] = max(largest_of[j], max(most.x, most.z));
            }
        }
    }
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        float largest = largest_of[j], inverse = largest > 1e-30 ? STEPS / largest : 0.0;
        if (i < vecs) {
            ivec4 q = floatBitsToInt(held[j] * inverse + 12582912.0) - 0x4b400000, high = (q + 128) >> 8;
            uint unit = unit_at(i / 2);
            x_codes[unit][2 * (i % 2)] = packed(high);
            x_codes[unit][2 * (i % 2) + 1] = packed(q - (high << 8));
            if (i % 8 == 0) x_scale[i / 8] = largest / STEPS;
        }
    }
#ifdef SUMS
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i % 4 == 0 && i < vecs) {
            ivec4 sum = ivec4(0);
            [[unroll]] for (uint u = 0; u < 2; u++) {
                ivec4 a = ivec4(x_codes[unit_at(i / 2 + u)]);
                [[unroll]] for (uint b = 0; b < 4; b++) sum[b] += dotPacked4x8EXT(0x01010101, a[b]);
            }
            x_sum[i / 8][i / 4 % 2] = largest_of[j] / STEPS * float((sum.x + sum.z) * 256 + sum.y + sum.w);
        }
    }
#endif
    barrier();
    norm_scale = 1.0;
    if (normed) {
        square = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) square += squares[i];
        norm_scale = 1.0 / sqrt(subgroupAdd(square) / float(4 * vecs) + number(AT_EPS));
    }
}

float biased(float sum, uint part, uint row) {
    sum *= number(AT_SCALE + part);
    return is(1u << part) ? sum + F32(address(AT_B + 2 * part)).v[row] : sum;
}

#include "lib/chain_gemv.glsl"
#ifdef SECOND
#include "lib/second.glsl"
#include "quant/contract.2.glsl"
#include "lib/chain_gemv.glsl"
#endif

void main() {
    uint t = gl_LocalInvocationID.x;
    for (uint i = t; i < STAGE_WORDS; i += gl_WorkGroupSize.x) words[0][i] = program.v[i];
    if (t == 0) given_up = false;
    barrier();
    for (uint s = 0; s < stages; s++) {
        stage = s % 2;
        uint next = min(s + 1, stages - 1) * STAGE_WORDS, ahead = program.v[next + min(t, STAGE_WORDS - 1)];
#ifdef SECOND
        if (is(OTHER_FORMAT)) run_2(s);
        else
#endif
        run_1(s);
        if (t < STAGE_WORDS) words[1 - stage][t] = ahead;
        memoryBarrierBuffer();
        barrier();
        if (t == 0) {
            bool last = atomicAdd(counter.v[0], 1) == stages * gl_NumWorkGroups.x - 1;
            if (last && !given_up) counter.v[0] = 0;
        }
    }
}
