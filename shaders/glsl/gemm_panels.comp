// y (+)= W x + b for prompts, by cooperative matrices of which threads set the elements themselves (policy/matrix.rs says which devices
// spread them so). Activations lie in panels of 64 rows in the order in which threads hold them (pack_panels.comp) and go from memory
// to registers; weights are decoded into the same order in shared memory, 64 inputs at a time, beside the products with the 64 before.
// A workgroup takes 64 outputs (of gate and up 32 each) and 64 rows for each of its subgroups, which keep all sums in registers.
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
const uint SHARES = 128 / gl_WorkGroupSize.x;    // chunks that a thread decodes a share of
const uint OUTPUTS = 64 / PARTS;                 // of a workgroup
const uint FRAGMENT = 32;                        // uvec4 of one: 16 rows by 16 inputs
const uint STAGE = 16 * FRAGMENT;
const uint APART = 17;                           // uvec4 from a row of sums to the next; odd, so that rows meet in no bank
const uint SUMS = 16 * APART * (gl_WorkGroupSize.x / 32);
shared uvec4 tile[SUMS > 2 * STAGE ? SUMS : 2 * STAGE];
shared uint arrived;
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer Partials { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Arrivals { uint v[]; };

Next next[SHARES];
Line line[SHARES];
uint half_of[SHARES];

// The fragment of a turn's activations that goes with quarter `q` of the weights of stage `s`.
uint fragment_of(uint s, uint q) {
    return s / STAGES * (CHUNK / 8) + chunk_col(q / 2, 8 * (s % STAGES) + 4 * (q % 2)) / 16;
}

// Decodes what stage `s` takes of the chunks that were fetched, those of `set`.
void stage(uint s, uint set) {
    const uint magic = magic();
    [[unroll]] for (uint i = 0; i < SHARES; i++) {
        const uint row = (gl_LocalInvocationID.x + i * gl_WorkGroupSize.x) % 64, g = row % 8;
        const uint base = s % 2 * STAGE + half_of[i] * 8 * FRAGMENT + row / 16 * FRAGMENT + g * 4, turned = g / 2;
        const uint words = row / 8 % 2 * 2; // of the row among a thread's
        const Coded d = coded(next[i], 2 * set + half_of[i]);
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
}

void fetch_set(uint set) {
    [[unroll]] for (uint i = 0; i < SHARES; i++) next[i] = fetch(line[i], 2 * set + half_of[i]);
}

// Four outputs that follow each other, of one matrix or, with WHOLE_ROWS 0, of whichever each is.
void store4(uint row, uint col, vec4 sum, vec4 other) {
    if (WHOLE_ROWS == 0) {
        [[unroll]] for (uint e = 0; e < 4; e++) {
            if (row + e < m) store(row + e, col, sum[e], other[e], before(row + e, col));
        }
        return;
    }
    if (row >= m) return;
    const uint part = GATED == 1 || row < m0 ? 0 : row < m01 ? 1 : 2;
    const uint in_part = part == 0 ? row : part == 1 ? row - m0 : row - m01;
    sum *= part == 0 ? s0 : part == 1 ? s1 : s2;
    if ((flags & (1u << part)) != 0) {
        F32 bias = part == 0 ? b0 : part == 1 ? b1 : b2;
        sum += vec4(bias.v[in_part], bias.v[in_part + 1], bias.v[in_part + 2], bias.v[in_part + 3]);
    }
    if (GATED == 1) {
        other *= s1;
        if ((flags & 2) != 0) other += vec4(b1.v[row], b1.v[row + 1], b1.v[row + 2], b1.v[row + 3]);
        sum = vec4(gated(sum.x, other.x), gated(sum.y, other.y), gated(sum.z, other.z), gated(sum.w, other.w));
    }
    F32x4 to = F32x4(uvec2(y));
    const uint at = (col * y_stride + row) / 4;
    if (ADD == 1) sum += to.v[at];
    to.v[at] = sum;
}

void main() {
    WEIGHT_INIT
    // Not constants: compilers would unroll the loop further.
    const uint all_turns = (k + 64 * TURN - 1) / (64 * TURN), most_turns = (all_turns + SPLIT - 1) / SPLIT;
    const uint first_turn = min(gl_WorkGroupID.z * most_turns, all_turns), end = min(first_turn + most_turns, all_turns);
    const uint first_set = first_turn * (TURN / STAGES);
    const uint t = gl_LocalInvocationID.x, lane = gl_SubgroupInvocationID, first = gl_WorkGroupID.y * OUTPUTS;
    const uint mine = lane / 4 * 4 + (lane % 4 ^ lane / 8), panel = gl_WorkGroupID.x * (gl_WorkGroupSize.x / 32) + gl_SubgroupID;
    [[unroll]] for (uint i = 0; i < SHARES; i++) {
        const uint unit = t + i * gl_WorkGroupSize.x, row = unit % 64;
        half_of[i] = unit / 64;
        line[i] = line_at(first + row % OUTPUTS, row / OUTPUTS);
    }
    // As they are loaded, two quarters of a stage's inputs: matrices are made next to their products, for compilers copy those that are
    // kept around a loop.
    uvec4 held_w[2 * 4], held_x[2 * 4];
    Sums sums[16];
    [[unroll]] for (uint i = 0; i < 16; i++) sums[i] = Sums(0.0);
    uint carry, high, low;
    umulExtended(panel, PANEL_BYTES, high, low);
    low = uaddCarry(uvec2(x).x, low + lane * 16 + first_turn * (4 * TURN * 4 * FRAGMENT * 16), carry);
    uvec2 from = uvec2(low, uvec2(x).y + high + carry);
    fetch_set(first_set);
    [[unroll]] for (uint p = 0; p < 2; p++) {
        [[unroll]] for (uint j = 0; j < 4; j++) held_x[p * 4 + j] = U32x4(from).v[(fragment_of(0, p) * 4 + j) * FRAGMENT];
    }
    stage(0, first_set);
    if (STAGES == 1) fetch_set(first_set + 1);
    barrier();
    [[unroll]] for (uint i = 0; i < 4; i++) held_w[i] = tile[i * FRAGMENT + mine];
    for (uint turn = first_turn; turn < end; turn++) {
        [[unroll]] for (uint s = 0; s < TURN; s++) {
            [[unroll]] for (uint q = 0; q < 4; q++) {
                if (q == 0) {
                    const uint set = turn * (TURN / STAGES) + (s + 1) / STAGES;
                    stage(s + 1, set);
                    if ((s + 1) % STAGES == STAGES - 1) fetch_set(set + 1);
                }
                if (q == 3) barrier();
                [[unroll]] for (uint i = 0; i < 4; i++) {
                    held_w[(q + 1) % 2 * 4 + i] = tile[(s + (q + 1) / 4) % 2 * STAGE + ((q + 1) % 4 * 4 + i) * FRAGMENT + mine];
                }
                Weights a[4];
                [[unroll]] for (uint i = 0; i < 4; i++) {
                    [[unroll]] for (uint e = 0; e < 4; e++) {
                        const f16vec2 two = unpackFloat2x16(held_w[q % 2 * 4 + i][e]);
                        a[i][2 * e] = two.x;
                        a[i][2 * e + 1] = two.y;
                    }
                }
                [[unroll]] for (uint j = 0; j < 4; j++) {
                    Activations b;
                    [[unroll]] for (uint e = 0; e < 4; e++) {
                        const f16vec2 two = unpackFloat2x16(held_x[q % 2 * 4 + j][e]);
                        b[2 * e] = two.x;
                        b[2 * e + 1] = two.y;
                    }
                    [[unroll]] for (uint i = 0; i < 4; i++) sums[i * 4 + j] = coopMatMulAdd(a[i], b, sums[i * 4 + j]);
                }
                const uint ahead = s * 4 + q + 2; // the next but one
                const uint at = ahead / 4 / TURN * (4 * TURN) + fragment_of(ahead / 4 % TURN, ahead % 4);
                [[unroll]] for (uint j = 0; j < 4; j++) held_x[q % 2 * 4 + j] = U32x4(from).v[(at * 4 + j) * FRAGMENT];
            }
        }
        low = uaddCarry(from.x, 4 * TURN * 4 * FRAGMENT * 16, carry);
        from = uvec2(low, from.y + carry);
    }
    if (SPLIT > 1) {
        Partials partials = Partials(split.v[0]);
        Arrivals arrivals = Arrivals(split.v[1]);
        const uint which = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, part = gl_WorkGroupSize.x / 32 * 1024;
        const uint at = which * SPLIT * part + gl_SubgroupID * 1024 + lane;
        [[unroll]] for (uint i = 0; i < 16; i++) {
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
        [[unroll]] for (uint i = 0; i < 16; i++) {
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
    const uint n = flags >> 8 & 0xffff, base = gl_SubgroupID * 16 * APART;
    barrier();
    [[unroll]] for (uint j = 0; j < 4; j++) {
        [[unroll]] for (uint i = 0; i < 4; i++) {
            coopMatStore(sums[i * 4 + j], tile, base + i * 4, APART, gl_CooperativeMatrixLayoutColumnMajor);
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        // As often for all threads, for else compilers do not unroll what is around it, and keep sums in memory.
        [[unroll]] for (uint turn = 0; turn < OUTPUTS / 8; turn++) {
            const uint i = turn * 32 + lane, near = i / (OUTPUTS / 4), four = i % (OUTPUTS / 4), col = panel * 64 + j * 16 + near;
            if (col < n) {
                const float scale = norm.v[col / 4][col % 4] / GAIN;
                const vec4 sum = uintBitsToFloat(tile[base + near * APART + four]) * scale;
                const vec4 other = GATED == 1 ? uintBitsToFloat(tile[base + near * APART + 8 + four]) * scale : vec4(0.0);
                store4(first + four * 4, col, sum, other);
            }
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
}
