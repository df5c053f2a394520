// Attention of an encoder by cooperative matrices of which threads set the elements themselves, as attn_prompt.comp does it for a cache:
// keys and values come as halves from tower_pack_keys.comp. A workgroup takes 32 queries of one head for each of its subgroups; 32 keys
// and values at a time go through shared memory, for all of them, beside the products with those before.
//
// Scores begin at minus the reference of their row, so that exp2 takes them as they come out, and those of keys that are not seen far
// below. A reference moves only when a score is over it by 2^8: rows are raised then, and the keys are done again.
#version 460
#include "lib/types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;            // a multiple of 32
layout(constant_id = 1) const uint D = 64; // columns of a head: a multiple of eight, at most 128
#include "push/tower_attend_fragments.glsl"
#define EXP exp2
#include "lib/softmax.glsl"
#define Queries coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define Keys coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
const float LOG2_E = 1.4426950408889634;
const uint SUBGROUPS = gl_WorkGroupSize.x / 32;
const uint TALL = 2, LONG = 2;             // matrices of a subgroup's queries, and of the keys of a turn
const uint SPAN = 16 * LONG;               // these keys
const uint OF_THREAD = 2 * TALL;           // queries that a thread has elements of: g, g + 8, g + 16, g + 24 of the subgroup's
const uint TILE_ROWS = SUBGROUPS * 16 * TALL;
const uint STEPS = (D + 15) / 16;          // matrices of a head's columns, with zeros behind it
const uint UNITS = SPAN * STEPS * 2;       // of sixteen bytes: keys of a turn, or values
const uint LOADS = (UNITS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const float FAR = -1e30;                   // where a score of a key that is not seen begins
const float UNSEEN = -1e29;                // threshold of a row that has seen nothing yet
const float OVER = 8.0;                    // by which a score may be over its row's reference
shared uvec4 staged_k[2 * UNITS], staged_v[2 * UNITS];

// Halves of a row's queries; what is flipped is nothing, which compilers do not know: they would carry each half in a register.
uint halved(vec2 v) { return packFloat2x16(f16vec2(clamp(v, -65504.0, 65504.0))) ^ (heads >> 31); }
// Sets a thread's elements, pair by pair, from words; of rows, words are those of rows g and g + 8 in turn.
#define SET(M, at, word) { \
        const f16vec2 two = unpackFloat2x16(word); \
        M[at] = two.x; \
        M[at + 1] = two.y; \
    }
#define SET_A(M, u) SET(M, 0, u.x) SET(M, 4, u.y) SET(M, 2, u.z) SET(M, 6, u.w)
#define SET_B(M, u) SET(M, 0, u.x) SET(M, 2, u.y) SET(M, 4, u.z) SET(M, 6, u.w)

void main() {
    const uint lane = gl_SubgroupInvocationID, subgroup = subgroupBroadcastFirst(gl_SubgroupID), g = lane / 4, t = lane % 4;
    const uint thread = subgroup * 32 + lane;
    const uint first = gl_WorkGroupID.x * TILE_ROWS, h = gl_WorkGroupID.y, kv_head = h / (heads / kv_heads);
    const uint row0 = first + subgroup * 16 * TALL;
    // What the rows of the tile see, for all subgroups alike; those past the last one are as it is.
    uint begin = spanned == 1 ? m : 0, end = spanned == 1 ? 0 : m, all_from = 0, all_to = m;
    if (spanned == 1) {
        [[unroll]] for (uint i = 0; i < SUBGROUPS; i++) {
            const uint row = min(first + i * 32 + lane, n - 1), from = spans.v[2 * row], to = spans.v[2 * row + 1];
            begin = min(begin, from);
            all_from = max(all_from, from);
            end = max(end, to);
            all_to = min(all_to, to);
        }
    }
    begin = subgroupBroadcastFirst(subgroupMin(begin)) / SPAN;
    all_from = subgroupBroadcastFirst((subgroupMax(all_from)) + SPAN - 1) / SPAN;
    end = subgroupBroadcastFirst(subgroupMax(end));
    all_to = subgroupBroadcastFirst(subgroupMin(all_to)) / SPAN;
    const uint turns = (end + SPAN - 1) / SPAN;
    uint ends[OF_THREAD], starts[OF_THREAD];
    [[unroll]] for (uint r = 0; r < OF_THREAD; r++) {
        const uint row = min(row0 + g + 8 * r, n - 1);
        starts[r] = spanned == 1 ? spans.v[2 * row] : 0;
        ends[r] = spanned == 1 ? spans.v[2 * row + 1] : m;
    }
    uvec4 asked[TALL * STEPS];
    const float by_scale = scale * LOG2_E;
    [[unroll]] for (uint rb = 0; rb < TALL; rb++) {
        const uvec2 rows = min(uvec2(row0 + rb * 16 + g, row0 + rb * 16 + g + 8), n - 1);
        const uvec2 from = (rows * q_stride + h * D) / 4;
        [[unroll]] for (uint c = 0; c < STEPS; c++) {
            // Columns behind the head count as zeros; no branch, so that the loop is unrolled.
            const uint col = min(c * 16 + t * 4, D - 4);
            const float by = c * 16 + t * 4 < D ? by_scale : 0.0;
            const vec4 a = q.v[from.x + col / 4] * by, b = q.v[from.y + col / 4] * by;
            asked[rb * STEPS + c] = uvec4(halved(a.xy), halved(b.xy), halved(a.zw), halved(b.zw));
        }
    }
    Sums outs[TALL * STEPS];
    [[unroll]] for (uint i = 0; i < TALL * STEPS; i++) outs[i] = Sums(0.0);
    // Minus the reference of each row, this thread's part of its sum, its threshold.
    float below[OF_THREAD], total[OF_THREAD], over[OF_THREAD];
    [[unroll]] for (uint r = 0; r < OF_THREAD; r++) {
        below[r] = total[r] = 0.0;
        over[r] = UNSEEN;
    }
    uvec4 k_raw[LOADS], v_raw[LOADS];
    const uint of_head = kv_head * (key_room / SPAN * UNITS);
#define FETCH(turn) { \
        [[unroll]] for (uint i = 0; i < LOADS; i++) { \
            const uint unit = min(i * gl_WorkGroupSize.x + thread, UNITS - 1); \
            k_raw[i] = keys.v[of_head + (turn) * UNITS + unit]; \
            v_raw[i] = values.v[of_head + (turn) * UNITS + unit]; \
        } }
#define STAGE(to) { \
        [[unroll]] for (uint i = 0; i < LOADS; i++) { \
            const uint unit = min(i * gl_WorkGroupSize.x + thread, UNITS - 1); \
            staged_k[(to) * UNITS + unit] = k_raw[i]; \
            staged_v[(to) * UNITS + unit] = v_raw[i]; \
        } }
    uint held = 0, turn = begin;
    FETCH(begin)
    STAGE(held)
    barrier();
    for (;;) {
        Sums s[TALL * LONG];
        while (turn < turns) {
            // Asked for here, a basic block before they are stored: compilers sink loads to their use within one.
            const uint after = min(turn + 1, turns - 1);
            FETCH(after)
            if (turn >= all_from && turn < all_to) {
                [[unroll]] for (uint i = 0; i < TALL * LONG; i++) {
                    [[unroll]] for (uint e = 0; e < 8; e++) s[i][e] = below[i / LONG * 2 + e / 4];
                }
            } else {
                [[unroll]] for (uint i = 0; i < TALL * LONG; i++) {
                    [[unroll]] for (uint e = 0; e < 8; e++) {
                        const uint r = i / LONG * 2 + e / 4, key = turn * SPAN + i % LONG * 16 + 2 * t + (e & 1) + (e & 2) * 4;
                        s[i][e] = key >= starts[r] && key < ends[r] ? below[r] : FAR;
                    }
                }
            }
            [[unroll]] for (uint c = 0; c < STEPS; c++) {
                Queries rows[TALL];
                [[unroll]] for (uint rb = 0; rb < TALL; rb++) {
                    const uvec4 u = asked[rb * STEPS + c];
                    SET_A(rows[rb], u)
                }
                [[unroll]] for (uint cb = 0; cb < LONG; cb++) {
                    const uvec4 u = staged_k[held * UNITS + (cb * STEPS + c) * 32 + lane];
                    Keys columns;
                    SET_B(columns, u)
                    [[unroll]] for (uint rb = 0; rb < TALL; rb++) s[rb * LONG + cb] = coopMatMulAdd(rows[rb], columns, s[rb * LONG + cb]);
                }
            }
            bool raise = false;
            [[unroll]] for (uint r = 0; r < OF_THREAD; r++) {
                float most = FAR;
                [[unroll]] for (uint cb = 0; cb < LONG; cb++) {
                    [[unroll]] for (uint e = 0; e < 4; e++) most = max(most, s[r / 2 * LONG + cb][r % 2 * 4 + e]);
                }
                raise = raise || most > over[r];
            }
            if (subgroupAny(raise)) break;
            STAGE(held ^ 1)
            Queries weights[TALL * LONG];
            [[unroll]] for (uint i = 0; i < TALL * LONG; i++) {
                [[unroll]] for (uint e = 0; e < 8; e++) {
                    const float x = exp2(s[i][e]);
                    total[i / LONG * 2 + e / 4] += x;
                    weights[i][e] = float16_t(x);
                }
            }
            [[unroll]] for (uint cb = 0; cb < LONG; cb++) {
                [[unroll]] for (uint f = 0; f < STEPS; f++) {
                    const uvec4 u = staged_v[held * UNITS + (cb * STEPS + f) * 32 + lane];
                    Keys columns;
                    SET_B(columns, u)
                    [[unroll]] for (uint rb = 0; rb < TALL; rb++) {
                        outs[rb * STEPS + f] = coopMatMulAdd(weights[rb * LONG + cb], columns, outs[rb * STEPS + f]);
                    }
                }
            }
            barrier();
            held ^= 1;
            turn++;
        }
        if (turn >= turns) break;
        [[unroll]] for (uint r = 0; r < OF_THREAD; r++) {
            float most = FAR;
            [[unroll]] for (uint cb = 0; cb < LONG; cb++) {
                [[unroll]] for (uint e = 0; e < 4; e++) most = max(most, s[r / 2 * LONG + cb][r % 2 * 4 + e]);
            }
            most = max(most, subgroupShuffleXor(most, 1));
            most = max(most, subgroupShuffleXor(most, 2));
            // A row that sees its first keys goes down to them, too.
            const bool sees = most > UNSEEN;
            const float up = over[r] == UNSEEN ? (sees ? most : 0.0) : max(most, 0.0);
            over[r] = over[r] == UNSEEN && !sees ? UNSEEN : OVER;
            const float by = exp2(-up);
            below[r] -= up;
            total[r] *= by;
            [[unroll]] for (uint f = 0; f < STEPS; f++) {
                [[unroll]] for (uint e = 0; e < 4; e++) outs[r / 2 * STEPS + f][r % 2 * 4 + e] *= by;
            }
        }
    }
    [[unroll]] for (uint r = 0; r < OF_THREAD; r++) {
        const uint row = row0 + g + 8 * r;
        float sum = total[r];
        sum += subgroupShuffleXor(sum, 1);
        sum += subgroupShuffleXor(sum, 2);
        float by = 1.0, most = -below[r];
        if (sunk == 1) by = sink_in(most, sum, sinks.v[h] * LOG2_E);
        by /= sum;
        if (row < n) {
            const uint at = ((row * heads + h) * D + t * 2) / 2;
            [[unroll]] for (uint eight = 0; eight < D / 8; eight++) {
                const uint first_of = r % 2 * 4 + eight % 2 * 2;
                F32x2(uvec2(y)).v[at + eight * 4] =
                    vec2(outs[r / 2 * STEPS + eight / 2][first_of], outs[r / 2 * STEPS + eight / 2][first_of + 1]) * by;
            }
        }
    }
}
