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
#define DOT4 dot4_1
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint K = 4096;   // inputs of a stage: these, of which there may be a norm,
layout(constant_id = 2) const uint K_2 = 8192; // or these
layout(constant_id = 3) const uint ROWS_2 = 1; // rows at a time of those
layout(constant_id = 4) const uint LANES = 32; // threads of a subgroup
layout(constant_id = 6) const uint BITS = 16;  // of an activation: 16 or 8
layout(constant_id = 5) const uint SPIN = 1 << 19; // looks at the counter before a workgroup gives up
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Met { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Met4 { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent volatile buffer Counter { uint v[]; };
layout(push_constant) uniform Push {
    U32 program;     // [stages, STAGE_WORDS]
    Counter counter; // workgroups that ended a stage, zero between dispatches; then 1 if a workgroup ever gave up
    U32 fault;       // likewise, for the host
    uint stages;
};
// Words of a stage; addresses take two.
const uint AT_W = 0, AT_B = 6, AT_X = 12, AT_Y = 14, AT_NORM = 16; // as Push of lib/gemv.glsl
const uint AT_K = 18, AT_M0 = 19, AT_M01 = 20, AT_M = 21, AT_EPS = 22, AT_SCALE = 23;
const uint AT_FIRST = 26; // subgroup that takes the first row
const uint AT_FLAGS = 27;
const uint STAGE_WORDS = 28;
// Flags: bit i: bias i is there, then these.
const uint GATED = 8, ADD = 16, NORM = 32, WAIT = 64, CODE = 128, SECOND_FORMAT = 256, SECOND_K = 512;
const uint ODD = 1024; // there are biases or factors

const uint K_MOST = K > K_2 ? K : K_2;
shared uvec4 x_codes[K_MOST * BITS / 128 + K_MOST * BITS / 1024 + 1];
#include "lib/codes.glsl"
shared vec2 x_run[K_MOST / 32]; // scale and sum of each run of 32
shared vec2 x_sum[K_MOST / 32]; // of its halves
shared float squares[gl_WorkGroupSize.x / 8];
shared uint words[2][STAGE_WORDS];
shared bool given_up;
uint stage; // which half of `words`

uint word(uint i) { return subgroupBroadcastFirst(words[stage][i]); }
uvec2 address(uint i) { return uvec2(word(i), word(i + 1)); }
float number(uint i) { return uintBitsToFloat(word(i)); }
bool is(uint flag) { return (word(AT_FLAGS) & flag) != 0; }

// Of the norm: its weights for the activations that a thread codes, and its factor of the sums.
const uint NORM_VECS = (K / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
vec4 weights[NORM_VECS];
float norm_scale;

// Waits until all workgroups have ended the stages before this one.
void await_others(uint s) {
    if (!is(WAIT)) return;
    if (gl_LocalInvocationID.x == 0) {
        uint wanted = s * gl_NumWorkGroups.x, looks = 0;
        while (counter.v[0] < wanted && !given_up) {
            if (++looks == SPIN) {
                given_up = true;
                counter.v[1] = 1;
                fault.v[0] = 1;
            }
        }
        memoryBarrierBuffer();
    }
    barrier();
}

#define CODE_NAME code_k
#define CODE_K K
#define CODE_NORM true
#include "lib/chain_code.glsl"
#define CODE_NAME code_k2
#define CODE_K K_2
#define CODE_NORM false
#include "lib/chain_code.glsl"

float biased(float sum, uint part, uint row, uint flags) {
    if (flags < ODD) return sum;
    sum *= number(AT_SCALE + part);
    return (flags & (1u << part)) != 0 ? sum + F32(address(AT_B + 2 * part)).v[row] : sum;
}

#include "lib/chain_format.glsl"
#define RUN run_gated
#define RUN_MULTIPLY multiply_run_gated
#define RUN_K K
#define RUN_CODE code_k
#define RUN_NORM true
#define RUN_LINES 2
#define RUN_GATED true
#include "lib/chain_gemv.glsl"
#define RUN run
#define RUN_MULTIPLY multiply_run
#define RUN_K K
#define RUN_CODE code_k
#define RUN_NORM true
#define RUN_LINES 1
#define RUN_GATED false
#include "lib/chain_gemv.glsl"
#define RUN run_k2
#define RUN_MULTIPLY multiply_run_k2
#define RUN_K K_2
#define RUN_CODE code_k2
#define RUN_NORM false
#define RUN_LINES ROWS_2
#define RUN_GATED false
#include "lib/chain_gemv.glsl"
#ifdef SECOND
#include "lib/second.glsl"
#include "quant/contract.2.glsl"
#include "lib/chain_format.glsl"
#define RUN run_2
#define RUN_MULTIPLY multiply_run_2
#define RUN_K K
#define RUN_CODE code_k
#define RUN_NORM true
#define RUN_LINES 1
#define RUN_GATED false
#include "lib/chain_gemv.glsl"
#define RUN run_2_k2
#define RUN_MULTIPLY multiply_run_2_k2
#define RUN_K K_2
#define RUN_CODE code_k2
#define RUN_NORM false
#define RUN_LINES ROWS_2
#define RUN_GATED false
#include "lib/chain_gemv.glsl"
#endif

void main() {
    uint t = gl_LocalInvocationID.x;
    for (uint i = t; i < STAGE_WORDS; i += gl_WorkGroupSize.x) words[0][i] = program.v[i];
    if (t == 0) given_up = counter.v[1] != 0;
    barrier();
    for (uint s = 0; s < stages; s++) {
        stage = s % 2;
        uint next = min(s + 1, stages - 1) * STAGE_WORDS, ahead = program.v[next + min(t, STAGE_WORDS - 1)];
        switch (word(AT_FLAGS) & (GATED | SECOND_FORMAT | SECOND_K)) {
            case GATED: run_gated(s); break;
            case SECOND_K: run_k2(s); break;
#ifdef SECOND
            case SECOND_FORMAT: run_2(s); break;
            case SECOND_FORMAT | SECOND_K: run_2_k2(s); break;
#endif
            default: run(s);
        }
        if (t < STAGE_WORDS) words[1 - stage][t] = ahead;
        barrier();
        if (t == 0) {
            memoryBarrierBuffer(); // for the whole workgroup: devices that chains are for order what came before its barrier, too
            // Whoever needs no answer does not wait for it.
            if (s + 1 < stages) atomicAdd(counter.v[0], 1);
            else if (atomicAdd(counter.v[0], 1) == stages * gl_NumWorkGroups.x - 1 && !given_up) counter.v[0] = 0;
        }
    }
}
