// A run of products of one activation row in one dispatch: the stages of a program, in order. There is a workgroup per
// multiprocessor, and all of them run at once. What one stage makes and the next one takes goes through memory as messages of
// sixteen values, coded by the workgroup whose rows they are. Every 16 bytes of a message carry an epoch that no earlier message in
// that place had, so that who needs them looks there until they are new: there is no counter and no fence. The first weights
// of a stage are asked for before its activations, so that memory does not rest meanwhile. Sums are made as in gemv_dot.comp.
//
// Rows are dealt in sixteens to workgroups, where they are sent or added to: what a workgroup adds to, it wrote itself.
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/softmax.glsl"
layout(local_size_x_id = 0) in;
#ifdef OF_EXPERTS // of a table of two dimensions, a driver (NVIDIA 580.159) makes a megakernel of experts that never ends
#define TABLE_IN_LINE
#endif
#include "quant/contract.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_integer_dot_product : require
#extension GL_KHR_memory_scope_semantics : require
#if defined HAS_OFFSET || defined SECOND
#define SUMS
#endif
#define DOT4 dot4_1
#define OFFSET offset_1
#define DOTS dots_1
layout(constant_id = 1) const uint K = 4096;   // inputs of a stage: these, of which there may be a norm,
layout(constant_id = 2) const uint K_2 = 8192; // or these
layout(constant_id = 3) const uint ROWS_2 = 1; // rows at a time of those
layout(constant_id = 4) const uint LANES = 32; // threads of a subgroup
layout(constant_id = 5) const uint SPIN = 1 << 19; // spins for a message before a thread gives up
layout(constant_id = 6) const uint BITS = 16;  // of an activation: 16 or 8
layout(constant_id = 7) const uint MESSAGES = 8; // that a workgroup sends in a stage, at most
layout(constant_id = 8) const uint HEAD_DIM = 64; // of attention; a power of two
layout(constant_id = 12) const uint PARTED = 0; // 1: attention is in parts, here or in a dispatch before
layout(constant_id = 13) const uint HEADS_MOST = 1; // query heads that a workgroup takes at once of a part
layout(constant_id = 14) const uint PAIR = 1; // and those that a subgroup does: of one K/V head
#ifdef OF_EXPERTS
layout(constant_id = 9) const uint K_3 = 8192;  // inputs of the experts' second products, of all of them
layout(constant_id = 10) const uint EXPERTS = 8;
layout(constant_id = 11) const uint USED = 2;   // of them, by a row
#else
const uint K_3 = 0;
#endif
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Met { float v[]; }; // see `end_stage`
layout(buffer_reference, std430, buffer_reference_align = 16) coherent volatile buffer Messages { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) coherent volatile buffer Values { uvec2 v[]; }; // and an epoch each
layout(buffer_reference, std430, buffer_reference_align = 4) writeonly buffer W32 { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent volatile buffer Flag { uint v[]; };
#include "push/megakernel.glsl"
#ifdef TABLE_WORDS // of the first format, which alone may have a table
#define MEGAKERNEL_TABLE
#endif
#include "words/stage.glsl" // a stage's words, of which addresses take two, and its flags

const uint K_DENSE = K > K_2 ? K : K_2, K_MOST = K_DENSE > K_3 ? K_DENSE : K_3;
const uint QUANTIZED_UNITS = K_MOST * BITS / 128 + K_MOST * BITS / 1024 + 1, HEADS_UNITS = gl_WorkGroupSize.x / LANES * PAIR * HEAD_DIM / 4;
shared uvec4 x_q[QUANTIZED_UNITS > HEADS_UNITS ? QUANTIZED_UNITS : HEADS_UNITS]; // attention has its sums there
const uint SCALED = 16; // activations that share a scale
#include "lib/quantize.glsl"
// Of both halves of each run of 32: the scale, and the sum. Even runs, then odd ones, in other banks.
const uint ODD_RUNS = (K_MOST / 64 + 7) / 8 * 8 + 4;
shared vec4 x_run[ODD_RUNS + K_MOST / 64 + 1];
shared float squares[gl_WorkGroupSize.x / 8];
shared uint words[2][STAGE_WORDS];
uint stage; // which half of `words`
uint epochs;  // what epochs of this step start at

uint run_at(uint run) { return run / 2 + run % 2 * ODD_RUNS; }
uint word(uint i) { return subgroupBroadcastFirst(words[stage][i]); }
uvec2 address(uint i) { return uvec2(word(i), word(i + 1)); }
float number(uint i) { return uintBitsToFloat(word(i)); }
bool is(uint flag) { return (word(AT_FLAGS) & flag) != 0; }

// Of the norm: its weights for the activations that a thread codes, and its factor of the sums.
const uint NORM_VECS = (K / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
vec4 weights[NORM_VECS];
float norm_scale;

void find_norm_scale(float count) {
    float square = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) square += squares[i];
    norm_scale = 1.0 / sqrt(subgroupAdd(square) / count + number(AT_EPS));
}

#include "lib/megakernel_message.glsl"
#include "lib/megakernel_attend.glsl"
#include "lib/megakernel_attend_split.glsl"
#ifdef OF_EXPERTS
#include "lib/megakernel_router.glsl"
#endif
// The inputs that stages may have: how many, and whether there may be a norm of them.
#define COUNT_OF_k K
#define NORMS_k true
#define COUNT_OF_k2 K_2
#define NORMS_k2 false
#define COUNT_OF_k3 K_3
#define NORMS_k3 false
#define JOIN_2(a, b) a##b
#define JOINED(a, b) JOIN_2(a, b)
#include "lib/megakernel_quantize.glsl: INPUTS=k"
#include "lib/megakernel_quantize.glsl: INPUTS=k2"
#ifdef OF_EXPERTS
#include "lib/megakernel_quantize.glsl: INPUTS=k3"
#endif

// For one thread: `words` without the others.
float biased(float sum, uint part, uint row, uint flags) {
    if ((flags & ODD) == 0) return sum;
    sum *= uintBitsToFloat(words[stage][AT_SCALE + part]);
    const uint at = AT_B + 2 * part;
    return (flags & (1u << part)) != 0 ? sum + F32(uvec2(words[stage][at], words[stage][at + 1])).v[row] : sum;
}

#include "lib/dot.glsl"
#ifdef OF_EXPERTS
#include "lib/megakernel_gemv.glsl: RUN=run_chosen INPUTS=k RUN_LINES=2 RUN_GATED=true RUN_EXPERTS=1"
#include "lib/megakernel_gemv.glsl: RUN=run_over INPUTS=k3 RUN_LINES=1 RUN_GATED=false RUN_EXPERTS=2"
#else
#include "lib/megakernel_gemv.glsl: RUN=run_gated INPUTS=k RUN_LINES=2 RUN_GATED=true RUN_EXPERTS=0"
#endif
#include "lib/megakernel_gemv.glsl: RUN=run INPUTS=k RUN_LINES=1 RUN_GATED=false RUN_EXPERTS=0"
#include "lib/megakernel_gemv.glsl: RUN=run_k2 INPUTS=k2 RUN_LINES=ROWS_2 RUN_GATED=false RUN_EXPERTS=0"
#ifdef SECOND
#include "lib/second_format.glsl"
#include "quant/contract.2.glsl"
#include "lib/dot.glsl"
#include "lib/megakernel_gemv.glsl: RUN=run_2 INPUTS=k RUN_LINES=1 RUN_GATED=false RUN_EXPERTS=0"
#include "lib/megakernel_gemv.glsl: RUN=run_2_k2 INPUTS=k2 RUN_LINES=ROWS_2 RUN_GATED=false RUN_EXPERTS=0"
#ifdef OF_EXPERTS
#include "lib/megakernel_gemv.glsl: RUN=run_over_2 INPUTS=k3 RUN_LINES=1 RUN_GATED=false RUN_EXPERTS=2"
#endif
#endif

// What a stage adds to may be what another subgroup of its workgroup wrote in a stage before: the memory model asks for a
// barrier that buffers take part in, which `barrier()` does not say. The workgroup is scope enough: what others have is sent.
void end_stage() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared | gl_StorageSemanticsBuffer,
                   gl_SemanticsAcquireRelease);
}

void main() {
    uint t = gl_LocalInvocationID.x;
    epochs = params.w[STEP_EPOCHS];
    for (uint i = t; i < STAGE_WORDS; i += gl_WorkGroupSize.x) words[0][i] = program.v[i];
    for (uint i = t; i < MESSAGES; i += gl_WorkGroupSize.x) arrived[0][i] = 0;
    barrier();
#ifdef MEGAKERNEL_TABLE
    stage = 0;
    if (!is(TRIAL)) stage_table(tables);
#endif
    for (uint s = 0; s < stages; s++) {
        stage = s % 2;
        uint next = min(s + 1, stages - 1) * STAGE_WORDS, ahead = program.v[next + min(t, STAGE_WORDS - 1)];
        switch (word(AT_FLAGS) & (GATED | SECOND_FORMAT | SECOND_K | TRIAL | ATTEND | JOIN | ROUTER | OF_CHOSEN | OVER_CHOSEN)) {
#ifdef OF_EXPERTS
            case GATED | OF_CHOSEN: run_chosen(); break;
            case OVER_CHOSEN: run_over(); break;
#ifdef SECOND
            case OVER_CHOSEN | SECOND_FORMAT: run_over_2(); break;
#endif
            case ROUTER: route(); break;
#else
            case GATED: run_gated(); break;
#endif
            case SECOND_K: run_k2(); break;
#ifdef SECOND
            case SECOND_FORMAT: run_2(); break;
            case SECOND_FORMAT | SECOND_K: run_2_k2(); break;
#endif
            case TRIAL: meet(); break;
            case ATTEND:
                if (PARTED == 1) attend_parts();
                else attend();
                break;
            case JOIN:
                if (PARTED == 1) join_parts();
                break;
            default: run();
        }
        if (t < STAGE_WORDS) words[1 - stage][t] = ahead;
        for (uint i = t; i < MESSAGES; i += gl_WorkGroupSize.x) arrived[1 - stage][i] = 0;
        end_stage();
    }
}
