// Attention of prompts over a cache of halves or of quantized blocks, by cooperative matrices of which threads set the elements
// themselves (policy/matrix.rs says which devices spread them so). A workgroup takes TILE_ROWS rows of each of GH query heads of one K/V
// head, a subgroup 32 rows of a head, or 16 of a wide one. K and V of some positions, a block of the cache or half of one, go through
// shared memory, for all of them, beside the products with those before. Rows of several sequences may meet in a tile: each sequence is
// walked in turn, the others masked.
//
// Scores begin at minus the reference of their row, so that exp2 takes them as they come out, and those of positions that are masked far
// below. A reference moves only when a score is over it by 2^8: rows are raised then, and the positions are done again.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/kv.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;            // a multiple of 32 * GH
layout(constant_id = 1) const uint GH = 1; // query heads per workgroup, all of one K/V head
#define Rows F32x4
#include "push/attn_prompt.glsl"
#include "lib/mask.glsl"
#define EXP exp2
#include "lib/softmax.glsl"
#define Queries coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define Keys coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
const uint SUBGROUPS = gl_WorkGroupSize.x / 32;
const bool WIDE_HEADS = HEAD_DIM > 128;
const uint TALL = WIDE_HEADS ? 1 : 2;      // matrices of a subgroup's rows
const uint LONG = WIDE_HEADS ? 1 : 2;      // matrices of the positions of a turn
const uint SPAN = 16 * LONG;               // these positions
const uint OF_THREAD = 2 * TALL;           // rows that a thread has elements of: g, g + 8, g + 16, g + 24 of the subgroup's
const uint TILE_ROWS = SUBGROUPS / GH * 16 * TALL;
const uint OWN = (TILE_ROWS + 31) / 32;    // rows of the tile that each thread of a subgroup looks at
const uint RUNS = HEAD_DIM / 32;           // runs of 32 dimensions
const uint WIDES = HEAD_DIM / 16;          // matrices of a row's outputs
const uint FRAGMENTS = LONG * WIDES;       // of K in a turn, of 32 units of 16 bytes
const uint PAIRS = FRAGMENTS / 2;
const uint K_LOADS = (PAIRS + SUBGROUPS - 1) / SUBGROUPS;
const uint V_UNITS = SPAN * HEAD_DIM / 8;
const uint V_LOADS = V_UNITS / gl_WorkGroupSize.x;
const uint V_STRIDE = HEAD_DIM / 8 + 1;    // uvec4 of a position; odd, so that positions meet in no bank
const uint NO_TABLE = 0xffffffffu;
const float FAR = -1e30;                   // where a score of a masked position begins
const float UNSEEN = -1e29;                // threshold of a row that has seen nothing yet
const float OVER = 8.0;                    // by which a score may be over its row's reference
shared uvec4 staged_k[2 * FRAGMENTS * 32], staged_v[2 * SPAN * V_STRIDE];

// Halves of a row's queries; what is flipped is nothing, which compilers do not know: they would carry each half in a register.
uint halved(vec2 v) { return packFloat2x16(f16vec2(v)) ^ (heads >> 31); }
// Sets a thread's elements, pair by pair, from words; of rows, words are those of rows g and g + 8 in turn.
#define SET(M, at, word) { \
        const f16vec2 two = unpackFloat2x16(word); \
        M[at] = two.x; \
        M[at + 1] = two.y; \
    }
#define SET_A(M, u) SET(M, 0, u.x) SET(M, 4, u.y) SET(M, 2, u.z) SET(M, 6, u.w)
#define SET_B(M, u) SET(M, 0, u.x) SET(M, 2, u.y) SET(M, 4, u.z) SET(M, 6, u.w)
// The block of the cache that turn `turn` of `turns` is of.
uint block_of(uint table, uint turn, uint turns) { return params.w[table + min(turn, turns - 1) * SPAN / KV_BLOCK]; }
uint slot_of(uint word, uint kv_head, uint pos) { return (word * kv_heads + kv_head) * KV_BLOCK + pos % KV_BLOCK; }

void main() {
    const uint lane = gl_SubgroupInvocationID, subgroup = subgroupBroadcastFirst(gl_SubgroupID), g = lane / 4, t = lane % 4;
    const uint n = params.w[STEP_ROWS];
    // The last rows, which have most to look at, first.
    const uint first = params.w[STEP_SINGLES] + (gl_NumWorkGroups.y - 1 - gl_WorkGroupID.y) * TILE_ROWS;
    if (first >= n) return;
    const uint h = gl_WorkGroupID.x * GH + subgroup % GH, kv_head = gl_WorkGroupID.x * GH / (heads / kv_heads);
    const uint row0 = first + subgroup / GH * 16 * TALL;
    // Rows of the tile, for all subgroups alike; those past the last one are as it is.
    uint own_table[OWN], own_len[OWN], own_start[OWN];
    bool walked[OWN];
    [[unroll]] for (uint i = 0; i < OWN; i++) {
        const uint row = min(first + i * 32 + lane, n - 1), pos = step_pos(params, row);
        own_table[i] = table_of(row);
        own_len[i] = pos + 1;
        own_start[i] = first_seen(row, pos);
        walked[i] = false;
    }
    uint tables[OF_THREAD], lens[OF_THREAD], starts[OF_THREAD];
    [[unroll]] for (uint r = 0; r < OF_THREAD; r++) {
        const uint row = min(row0 + g + 8 * r, n - 1), pos = step_pos(params, row);
        tables[r] = table_of(row);
        lens[r] = pos + 1;
        starts[r] = first_seen(row, pos);
    }
    uvec4 asked[TALL * 2 * RUNS];
    const float by_scale = scale * LOG2_E;
    [[unroll]] for (uint rb = 0; rb < TALL; rb++) {
        const uvec2 rows = min(uvec2(row0 + rb * 16 + g, row0 + rb * 16 + g + 8), n - 1);
        const uvec2 from = (rows * (heads + 2 * kv_heads) + h) * (HEAD_DIM / 4);
        [[unroll]] for (uint c = 0; c < RUNS; c++) {
            const uint at = c * 8 + t * 2;
            [[unroll]] for (uint i = 0; i < 2; i++) {
                const vec4 a = qkv.v[from.x + at + i] * by_scale, b = qkv.v[from.y + at + i] * by_scale;
                asked[(rb * RUNS + c) * 2 + i] = uvec4(halved(a.xy), halved(b.xy), halved(a.zw), halved(b.zw));
            }
        }
    }
    Sums outs[TALL * WIDES];
    [[unroll]] for (uint i = 0; i < TALL * WIDES; i++) outs[i] = Sums(0.0);
    // Minus the reference of each row, this thread's part of its sum, its threshold.
    float below[OF_THREAD], total[OF_THREAD], over[OF_THREAD];
    [[unroll]] for (uint r = 0; r < OF_THREAD; r++) {
        below[r] = total[r] = 0.0;
        over[r] = UNSEEN;
    }
    uint held = 0;
    for (;;) {
        // The table of a sequence that was not walked yet, and what its rows see.
        uint next_table = NO_TABLE;
        [[unroll]] for (uint i = 0; i < OWN; i++) next_table = min(next_table, walked[i] ? NO_TABLE : own_table[i]);
        const uint table = subgroupBroadcastFirst(subgroupMin(next_table));
        if (table == NO_TABLE) break;
        uint end = 0, begin = 0xffffffffu, all_from = 0, all_to = 0xffffffffu;
        [[unroll]] for (uint i = 0; i < OWN; i++) {
            const bool same = own_table[i] == table;
            walked[i] = walked[i] || same;
            end = max(end, same ? own_len[i] : 0);
            begin = min(begin, same ? own_start[i] : 0xffffffffu);
            all_to = min(all_to, same ? own_len[i] : 0);
            all_from = max(all_from, own_start[i]);
        }
        end = subgroupBroadcastFirst(subgroupMax(end));
        begin = subgroupBroadcastFirst(subgroupMin(begin)) / SPAN;
        all_to = subgroupBroadcastFirst(subgroupMin(all_to)) / SPAN;
        all_from = subgroupBroadcastFirst((subgroupMax(all_from)) + SPAN - 1) / SPAN;
        const uint turns = (end + SPAN - 1) / SPAN;
        uvec4 k_raw[2 * K_LOADS], v_raw[V_LOADS];
#define FETCH(word, turn) { \
        [[unroll]] for (uint i = 0; i < K_LOADS; i++) { \
            const uint pair = subgroup + i * SUBGROUPS; \
            if (PAIRS % SUBGROUPS == 0 || pair < PAIRS) { \
                const uint pos = (turn) * SPAN + pair / RUNS * 16 + g, unit = pair % RUNS * 4 + t; \
                k_raw[2 * i] = kv_fetch(k_cache, K_TYPE, HEAD_DIM, slot_of(word, kv_head, min(pos, end - 1)), unit); \
                k_raw[2 * i + 1] = kv_fetch(k_cache, K_TYPE, HEAD_DIM, slot_of(word, kv_head, min(pos + 8, end - 1)), unit); \
            } \
        } \
        [[unroll]] for (uint i = 0; i < V_LOADS; i++) { \
            const uint unit = i * gl_WorkGroupSize.x + subgroup * 32 + lane, pos = (turn) * SPAN + unit / (HEAD_DIM / 8); \
            v_raw[i] = kv_fetch(v_cache, V_TYPE, HEAD_DIM, slot_of(word, kv_head, min(pos, end - 1)), unit % (HEAD_DIM / 8)); \
        } }
#define STAGE_K(to) { \
        [[unroll]] for (uint i = 0; i < K_LOADS; i++) { \
            const uint pair = subgroup + i * SUBGROUPS; \
            if (PAIRS % SUBGROUPS == 0 || pair < PAIRS) { \
                const uvec4 a = kv_halves(K_TYPE, k_raw[2 * i]), b = kv_halves(K_TYPE, k_raw[2 * i + 1]); \
                const uint at = (to) * (FRAGMENTS * 32) + pair * 64 + lane; \
                staged_k[at] = uvec4(a.xy, b.xy); \
                staged_k[at + 32] = uvec4(a.zw, b.zw); \
            } \
        } }
#define STAGE_V(to) { \
        [[unroll]] for (uint i = 0; i < V_LOADS; i++) { \
            const uint unit = i * gl_WorkGroupSize.x + subgroup * 32 + lane; \
            const uint at = (to) * (SPAN * V_STRIDE) + unit / (HEAD_DIM / 8) * V_STRIDE + unit % (HEAD_DIM / 8); \
            staged_v[at] = kv_halves(V_TYPE, v_raw[i]); \
        } }
        uint word = block_of(table, begin, turns);
        FETCH(word, begin)
        STAGE_K(held)
        STAGE_V(held)
        barrier();
        word = block_of(table, begin + 1, turns);
        uint turn = begin;
        for (;;) {
            Sums s[TALL * LONG];
            while (turn < turns) {
                const uint ahead = block_of(table, turn + 2, turns), after = min(turn + 1, turns - 1);
                // Asked for here, a basic block before they are stored: compilers sink loads to their use within one.
                FETCH(word, after)
                if (turn >= all_from && turn < all_to) {
                    [[unroll]] for (uint i = 0; i < TALL * LONG; i++) {
                        [[unroll]] for (uint e = 0; e < 8; e++) s[i][e] = below[i / LONG * 2 + e / 4];
                    }
                } else {
                    [[unroll]] for (uint i = 0; i < TALL * LONG; i++) {
                        [[unroll]] for (uint e = 0; e < 8; e++) {
                            const uint r = i / LONG * 2 + e / 4, pos = turn * SPAN + i % LONG * 16 + 2 * t + (e & 1) + (e & 2) * 4;
                            const bool after = MASK == MASK_CAUSAL || pos >= starts[r];
                            s[i][e] = after && pos < lens[r] && tables[r] == table ? below[r] : FAR;
                        }
                    }
                }
                [[unroll]] for (uint c = 0; c < RUNS; c++) {
                    Queries q0[TALL], q1[TALL];
                    [[unroll]] for (uint rb = 0; rb < TALL; rb++) {
                        const uvec4 u0 = asked[(rb * RUNS + c) * 2], u1 = asked[(rb * RUNS + c) * 2 + 1];
                        SET_A(q0[rb], u0)
                        SET_A(q1[rb], u1)
                    }
                    [[unroll]] for (uint cb = 0; cb < LONG; cb++) {
                        const uint at = held * (FRAGMENTS * 32) + (cb * RUNS + c) * 64 + lane;
                        const uvec4 u0 = staged_k[at], u1 = staged_k[at + 32];
                        Keys k0, k1;
                        SET_B(k0, u0)
                        SET_B(k1, u1)
                        [[unroll]] for (uint rb = 0; rb < TALL; rb++) s[rb * LONG + cb] = coopMatMulAdd(q0[rb], k0, s[rb * LONG + cb]);
                        [[unroll]] for (uint rb = 0; rb < TALL; rb++) s[rb * LONG + cb] = coopMatMulAdd(q1[rb], k1, s[rb * LONG + cb]);
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
                STAGE_K(held ^ 1)
                if (!WIDE_HEADS) STAGE_V(held ^ 1)
                Queries weights[TALL * LONG];
                [[unroll]] for (uint i = 0; i < TALL * LONG; i++) {
                    [[unroll]] for (uint e = 0; e < 8; e++) {
                        const float x = exp2(s[i][e]);
                        total[i / LONG * 2 + e / 4] += x;
                        weights[i][e] = float16_t(x);
                    }
                }
                [[unroll]] for (uint cb = 0; cb < LONG; cb++) {
                    [[unroll]] for (uint f = 0; f < WIDES; f++) {
                        Keys v;
                        const uint at = held * (SPAN * V_STRIDE) + cb * 16 * V_STRIDE + f * 2;
                        coopMatLoad(v, staged_v, at, V_STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                        [[unroll]] for (uint rb = 0; rb < TALL; rb++) {
                            outs[rb * WIDES + f] = coopMatMulAdd(weights[rb * LONG + cb], v, outs[rb * WIDES + f]);
                        }
                    }
                }
                if (WIDE_HEADS) STAGE_V(held ^ 1) // what was fetched takes fewer registers than what waits for the sums of wide ones
                barrier();
                held ^= 1;
                word = ahead;
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
                // A row that sees its first positions goes down to them, too.
                const bool sees = most > UNSEEN;
                const float up = over[r] == UNSEEN ? (sees ? most : 0.0) : max(most, 0.0);
                over[r] = over[r] == UNSEEN && !sees ? UNSEEN : OVER;
                const float by = exp2(-up);
                below[r] -= up;
                total[r] *= by;
                [[unroll]] for (uint f = 0; f < WIDES; f++) {
                    [[unroll]] for (uint e = 0; e < 4; e++) outs[r / 2 * WIDES + f][r % 2 * 4 + e] *= by;
                }
            }
        }
    }
    [[unroll]] for (uint r = 0; r < OF_THREAD; r++) {
        const uint row = row0 + g + 8 * r;
        float sum = total[r];
        sum += subgroupShuffleXor(sum, 1);
        sum += subgroupShuffleXor(sum, 2);
        float by = 1.0;
        float most = -below[r];
        if (has_sinks()) by = sink_in(most, sum, F32(sinks).v[h] * LOG2_E);
        by /= sum;
        if (row < n) {
            const uint at = (row * heads + h) * (HEAD_DIM / 2) + t;
            [[unroll]] for (uint f = 0; f < WIDES; f++) {
                [[unroll]] for (uint e = 0; e < 2; e++) {
                    const uint first_of = r % 2 * 4 + e * 2;
                    F32x2(uvec2(y)).v[at + f * 8 + e * 4] =
                        vec2(outs[r / 2 * WIDES + f][first_of], outs[r / 2 * WIDES + f][first_of + 1]) * by;
                }
            }
        }
    }
}
