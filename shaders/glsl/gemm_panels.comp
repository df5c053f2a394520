// y (+)= W x + b for prompts, by cooperative matrices of which threads set the elements themselves (policy/matrix.rs says which devices
// spread them so). Activations lie in panels of 64 rows in the order in which threads hold them (pack_panels.comp) and go from memory
// to registers; weights are decoded into the same order in shared memory, 64 inputs at a time, beside the products with the 64 before.
// A workgroup of four subgroups takes 64 outputs (of gate and up 32 each): a subgroup TALL times 16 of them and WIDE times 16 rows, whose
// sums it keeps in registers. With EXPERTS rows are tiles of pairs of a row and an expert, of one expert each (moe_permute.comp).
#version 460
#include "lib/types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;
#include "quant/contract.glsl"
layout(constant_id = 5) const uint K = 4096;  // inputs
layout(constant_id = 7) const uint SPLIT = 1; // workgroups that share them; the last of them adds up what all found, in their order
layout(constant_id = 8) const uint TALL = 4;  // matrices of weights that a subgroup takes: 1, 2 or 4
layout(constant_id = 9) const uint WIDE = 4;  // matrices of activations that it takes: 1, 2 or 4
#define OF_PANELS
#include "lib/gemv.glsl"
#include "lib/moe_tiles.glsl"
#include "lib/matrix_weights.glsl"
#include "lib/panels.glsl"
#define Weights coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define Activations coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
const uint STAGES = CHUNK / 32;                  // in which two chunks that follow each other are decoded: 64 inputs each
const uint TURN = 4;                             // stages that the loop is unrolled by
const uint ABOVE = 4 / TALL;                     // subgroups of which each has other outputs of the same rows
const uint BESIDE = TALL;                        // and those of which each has other rows
const uint AHEAD = WIDE > 2 ? 2 : 4;             // quarters of a stage that activations are loaded ahead
const uint OUTPUTS = 64 / PARTS;                 // of a workgroup
const uint FRAGMENT = 32;                        // uvec4 of one: 16 rows by 16 inputs
const uint STAGE = 16 * FRAGMENT;
const uint APART = 17;                           // uvec4 from a row of sums to the next; odd, so that rows meet in no bank
const uint SUMS = 16 * APART * BESIDE;
shared uvec4 tile[SUMS > 2 * STAGE ? SUMS : 2 * STAGE];
shared uint arrived;
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Partials { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Arrivals { uint v[]; };

Next next;
Line line;
uint half_of; // a chunk's, that the thread decodes of two

// The fragment of a turn's activations that goes with quarter `q` of the weights of stage `s`.
uint fragment_of(uint s, uint q) {
    return s / STAGES * (CHUNK / 8) + chunk_col(q / 2, 8 * (s % STAGES) + 4 * (q % 2)) / 16;
}

// Decodes what stage `s` takes of the chunks that were fetched, those of `set`.
void stage(uint s, uint set) {
    const uint magic = magic(), row = gl_LocalInvocationID.x % 64, g = row % 8;
    const uint base = s % 2 * STAGE + half_of * 8 * FRAGMENT + row / 16 * FRAGMENT + g * 4, turned = g / 2;
    const uint words = row / 8 % 2 * 2; // of the row among a thread's
    const Coded d = coded(next, 2 * set + half_of);
    [[unroll]] for (uint a = 0; a < 2; a++) {
        uvec2 v[4];
        [[unroll]] for (uint j = 0; j < 4; j++) v[j] = group_halves(d, 8 * (s % STAGES) + 4 * a + j, magic);
        [[unroll]] for (uint q = 0; q < 4; q++) {
            const uint at = base + a * 4 * FRAGMENT + (q ^ turned);
            tile[at][words] = v[q / 2][q % 2];
            tile[at][words + 1] = v[2 + q / 2][q % 2];
        }
    }
}

void fetch_set(uint set) { next = fetch(line, 2 * set + half_of); }

// What an expert makes of an output of a pair.
void of_expert(uint row, uint pair, inout float sum, inout float other) {
    if (GATED == 1) {
        sum = sum * routed_of(2, pair) + expert_bias(0, run_expert, row);
        other = other * routed_of(3, pair) + expert_bias(1, run_expert, row);
    } else {
        sum = (sum + expert_bias(0, run_expert, row)) * routed_of(1, pair);
    }
}

// Four outputs that follow each other, of one matrix or, with WHOLE_ROWS 0, of whichever each is. `to`: row of y.
void store4(uint row, uint to, vec4 sum, vec4 other) {
    if (WHOLE_ROWS == 0) {
        [[unroll]] for (uint e = 0; e < 4; e++) {
            if (row + e < m) {
                float one = sum[e], beside = other[e];
                if (EXPERTS > 0) of_expert(row + e, to, one, beside);
                store(row + e, to, one, beside, before(row + e, to));
            }
        }
        return;
    }
    if (row >= m) return;
    if (EXPERTS > 0) {
        [[unroll]] for (uint e = 0; e < 4; e++) {
            float one = sum[e], beside = other[e];
            of_expert(row + e, to, one, beside);
            sum[e] = one;
            other[e] = beside;
        }
    } else {
        const uint part = GATED == 1 || row < m0 ? 0 : row < m01 ? 1 : 2;
        const uint in_part = part == 0 ? row : part == 1 ? row - m0 : row - m01;
        sum *= part == 0 ? s0 : part == 1 ? s1 : s2;
        if ((flags & (1u << part)) != 0) {
            F32 bias = part == 0 ? b0 : part == 1 ? b1 : b2;
            sum += vec4(bias.v[in_part], bias.v[in_part + 1], bias.v[in_part + 2], bias.v[in_part + 3]);
        }
        other *= s1;
        if (GATED == 1 && (flags & 2) != 0) other += vec4(b1.v[row], b1.v[row + 1], b1.v[row + 2], b1.v[row + 3]);
    }
    if (GATED == 1) sum = vec4(gated(sum.x, other.x), gated(sum.y, other.y), gated(sum.z, other.z), gated(sum.w, other.w));
    F32x4 out4 = F32x4(uvec2(y));
    const uint at = (to * y_stride + row) / 4;
    if (ADD == 1) sum += out4.v[at];
    out4.v[at] = sum;
}

// Between what threads leave of sums and what others take, of those that have the same rows.
void meet() {
    if (ABOVE > 1) {
        barrier();
    } else {
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
}

void main() {
    // Of experts, workgroups with the same rows follow each other; of others, those with the same weights do.
    const uint across = EXPERTS > 0 ? gl_WorkGroupID.y : gl_WorkGroupID.x, down = EXPERTS > 0 ? gl_WorkGroupID.x : gl_WorkGroupID.y;
    if (EXPERTS > 0) {
        run_expert = U32(uvec2(b1)).v[across];
        if (run_expert == NONE) return;
    }
    WEIGHT_INIT
    // Not constants: compilers would unroll the loop further.
    const uint all_turns = (k + 64 * TURN - 1) / (64 * TURN), most_turns = (all_turns + SPLIT - 1) / SPLIT;
    const uint first_turn = min(gl_WorkGroupID.z * most_turns, all_turns), end = min(first_turn + most_turns, all_turns);
    const uint first_set = first_turn * (TURN / STAGES);
    const uint t = gl_LocalInvocationID.x, lane = gl_SubgroupInvocationID, first = down * OUTPUTS;
    const uint above = gl_SubgroupID % ABOVE, beside = gl_SubgroupID / ABOVE;
    const uint mine = above * TALL * FRAGMENT + lane / 4 * 4 + (lane % 4 ^ lane / 8);
    const uint sixteen = (across * BESIDE + beside) * WIDE; // of the first rows
    half_of = t / 64;
    line = line_at(first + t % 64 % OUTPUTS, t % 64 / OUTPUTS);
    // As they are loaded, some quarters of a stage's inputs: matrices are made next to their products, for compilers copy those that are
    // kept around a loop.
    uvec4 held_w[2 * TALL], held_x[AHEAD * WIDE];
    Sums sums[TALL * WIDE];
    [[unroll]] for (uint i = 0; i < TALL * WIDE; i++) sums[i] = Sums(0.0);
    uint carry, high, low;
    umulExtended(sixteen / 4, PANEL_BYTES, high, low);
    low = uaddCarry(uvec2(x).x, low + (sixteen % 4 * FRAGMENT + lane) * 16 + first_turn * (4 * TURN * 4 * FRAGMENT * 16), carry);
    uvec2 from = uvec2(low, uvec2(x).y + high + carry);
    fetch_set(first_set);
    [[unroll]] for (uint p = 0; p < AHEAD; p++) {
        [[unroll]] for (uint j = 0; j < WIDE; j++) held_x[p * WIDE + j] = U32x4(from).v[(fragment_of(0, p) * 4 + j) * FRAGMENT];
    }
    stage(0, first_set);
    if (STAGES == 1) fetch_set(first_set + 1);
    barrier();
    [[unroll]] for (uint i = 0; i < TALL; i++) held_w[i] = tile[i * FRAGMENT + mine];
    for (uint turn = first_turn; turn < end; turn++) {
        [[unroll]] for (uint s = 0; s < TURN; s++) {
            [[unroll]] for (uint q = 0; q < 4; q++) {
                if (q == 0) {
                    const uint set = turn * (TURN / STAGES) + (s + 1) / STAGES;
                    stage(s + 1, set);
                    if ((s + 1) % STAGES == STAGES - 1) fetch_set(set + 1);
                }
                if (q == 3) barrier();
                [[unroll]] for (uint i = 0; i < TALL; i++) {
                    held_w[(q + 1) % 2 * TALL + i] = tile[(s + (q + 1) / 4) % 2 * STAGE + ((q + 1) % 4 * 4 + i) * FRAGMENT + mine];
                }
                Weights a[TALL];
                [[unroll]] for (uint i = 0; i < TALL; i++) {
                    [[unroll]] for (uint e = 0; e < 4; e++) {
                        const f16vec2 two = unpackFloat2x16(held_w[q % 2 * TALL + i][e]);
                        a[i][2 * e] = two.x;
                        a[i][2 * e + 1] = two.y;
                    }
                }
                [[unroll]] for (uint j = 0; j < WIDE; j++) {
                    Activations b;
                    [[unroll]] for (uint e = 0; e < 4; e++) {
                        const f16vec2 two = unpackFloat2x16(held_x[q % AHEAD * WIDE + j][e]);
                        b[2 * e] = two.x;
                        b[2 * e + 1] = two.y;
                    }
                    [[unroll]] for (uint i = 0; i < TALL; i++) sums[i * WIDE + j] = coopMatMulAdd(a[i], b, sums[i * WIDE + j]);
                }
                const uint ahead = s * 4 + q + AHEAD;
                const uint at = ahead / 4 / TURN * (4 * TURN) + fragment_of(ahead / 4 % TURN, ahead % 4);
                [[unroll]] for (uint j = 0; j < WIDE; j++) held_x[q % AHEAD * WIDE + j] = U32x4(from).v[(at * 4 + j) * FRAGMENT];
            }
        }
        low = uaddCarry(from.x, 4 * TURN * 4 * FRAGMENT * 16, carry);
        from = uvec2(low, from.y + carry);
    }
    if (SPLIT > 1) {
        const uint MATRICES = TALL * WIDE * 64; // vec4 of a subgroup's sums
        Partials partials = Partials(split.v[0]);
        Arrivals arrivals = Arrivals(split.v[1]);
        const uint which = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, part = 4 * MATRICES;
        const uint at = which * SPLIT * part + gl_SubgroupID * MATRICES + lane;
        [[unroll]] for (uint i = 0; i < TALL * WIDE; i++) {
            const uint to = at + gl_WorkGroupID.z * part + i * 64;
            partials.v[to] = vec4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
            partials.v[to + 32] = vec4(sums[i][4], sums[i][5], sums[i][6], sums[i][7]);
        }
        memoryBarrierBuffer();
        barrier();
        if (t == 0) {
            arrived = atomicAdd(arrivals.v[which], 1);
            if (arrived == SPLIT - 1) arrivals.v[which] = 0;
        }
        barrier();
        if (arrived != SPLIT - 1) return;
        memoryBarrierBuffer();
        [[unroll]] for (uint i = 0; i < TALL * WIDE; i++) {
            vec4 a = vec4(0.0), b = vec4(0.0);
            [[unroll]] for (uint p = 0; p < SPLIT; p++) {
                a += partials.v[at + p * part + i * 64];
                b += partials.v[at + p * part + i * 64 + 32];
            }
            [[unroll]] for (uint e = 0; e < 4; e++) {
                sums[i][e] = a[e];
                sums[i][4 + e] = b[e];
            }
        }
    }
    const uint n = flags >> 8 & 0xffff, base = beside * 16 * APART;
    barrier();
    [[unroll]] for (uint j = 0; j < WIDE; j++) {
        [[unroll]] for (uint i = 0; i < TALL; i++) {
            coopMatStore(sums[i * WIDE + j], tile, base + (above * TALL + i) * 4, APART, gl_CooperativeMatrixLayoutColumnMajor);
        }
        meet();
        // As often for all threads, for else compilers do not unroll what is around it, and keep sums in memory.
        [[unroll]] for (uint turn = 0; turn < OUTPUTS / 8 / ABOVE; turn++) {
            const uint i = (turn * ABOVE + above) * 32 + lane, near = i / (OUTPUTS / 4), four = i % (OUTPUTS / 4);
            const uint col = (sixteen + j) * 16 + near, to = EXPERTS > 0 ? pair_at(col) : col;
            if (EXPERTS > 0 ? to != NONE : col < n) {
                const float scale = norm.v[col / 4][col % 4] / GAIN;
                const vec4 sum = uintBitsToFloat(tile[base + near * APART + four]) * scale;
                const vec4 other = GATED == 1 ? uintBitsToFloat(tile[base + near * APART + 8 + four]) * scale : vec4(0.0);
                store4(first + four * 4, to, sum, other);
            }
        }
        meet();
    }
}
