// Attention as stages of chain.comp, of one row and a cache of halves. Of a short sequence, a workgroup takes a query head at a
// time and is done. Of a long one, it takes HEADS_EACH query heads of one K/V head, which is read once for all of them, over a
// part of the positions; in a stage of its own the parts are joined. K and V of the first positions are asked for before q, k
// and v are there; those arrive value by value, with a tag each.
const uint HEAD_UNITS = HEAD_DIM / 8; // of 16 bytes
const uint AT_ONCE = gl_WorkGroupSize.x / HEAD_UNITS, DEEP = 4, SPAN = AT_ONCE * DEEP; // positions
const uint MOST_HEADS = HEADS_EACH; // that a workgroup takes
const uint STATE = HEAD_DIM + 2;    // values of a part: sums of V, the largest score, the sum of weights
shared vec4 newest[(MOST_HEADS + 2) * HEAD_DIM / 4]; // q, k, v
shared float scores[2][MOST_HEADS * SPAN];
shared float frequencies[HEAD_DIM / 2], head_norms[2 * HEAD_DIM];
shared float part_state[2][MOST_PARTS];

uint cache_at(uint table, uint pos, uint kv_head, uint kv_heads) {
    return kv_slot(params, table, pos, kv_head, kv_heads) * HEAD_UNITS;
}
float newest_at(uint i) { return newest[i / 4][i % 4]; }
vec4 halves(uint a, uint b) { return vec4(unpackHalf2x16(a), unpackHalf2x16(b)); }

// Parts of a long sequence, and positions of each; one part of a short one, of which workgroups take single heads.
uint positions_each(uint pos, uint heads) {
    const uint parts = min(gl_NumWorkGroups.x / (heads / HEADS_EACH), MOST_PARTS);
    if (pos <= WHOLE_POSITIONS || parts < 2) return max(pos, 1);
    return ((pos + parts - 1) / parts + SPAN - 1) / SPAN * SPAN;
}

// Norms and turns q or k, which starts at `from`.
void turn_head(uint from, uint norm_from, bool normed, uint dims, bool neox, uint pos) {
    const uint lane = gl_SubgroupInvocationID;
    if (normed) {
        float square = 0.0;
        for (uint i = lane; i < HEAD_DIM; i += LANES) square += newest_at(from + i) * newest_at(from + i);
        const float by = 1.0 / sqrt(subgroupAdd(square) / float(HEAD_DIM) + number(AT_EPS));
        for (uint i = lane; i < HEAD_DIM; i += LANES) newest[(from + i) / 4][i % 4] *= by * head_norms[norm_from + i];
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
    for (uint i = lane; i < dims / 2; i += LANES) {
        const uint a = from + (neox ? i : 2 * i), b = neox ? a + dims / 2 : a + 1;
        const vec2 turned = rotated(vec2(newest_at(a), newest_at(b)), pos, frequencies[i]);
        newest[a / 4][a % 4] = turned.x;
        newest[b / 4][b % 4] = turned.y;
    }
}

void send_value(Values to, uint at, float value) {
    to.v[at] = uvec2(floatBitsToUint(value), (tags + words[stage][AT_VALUES_TAG]) & TAG_BITS);
}

#define ATTEND attend_heads
#define ATTEND_HEADS 1
#include "lib/chain_attend_heads.glsl"
#define ATTEND attend_parts
#define ATTEND_HEADS MOST_HEADS
#include "lib/chain_attend_heads.glsl"

void attend() {
    const uint heads = word(AT_K), pos = step_pos(params, 0), each = positions_each(pos, heads);
    if (each >= pos) attend_heads(heads, pos, each);
    else attend_parts(heads, pos, each);
}

// Joins the parts of a long sequence: a workgroup takes a head at a time.
void join() {
    const uint t = gl_LocalInvocationID.x, heads = word(AT_K), wanted = (tags + word(AT_IN_TAG)) & TAG_BITS;
    const uint pos = step_pos(params, 0), each = positions_each(pos, heads), parts = (pos + each - 1) / each;
    if (each >= pos) return;
    const uint GROUPED = gl_WorkGroupSize.x / HEAD_DIM, EACH = (MOST_PARTS + GROUPED - 1) / GROUPED; // threads of an element
    Values there = Values(address(AT_IN));
    Met y = Met(address(AT_Y));
    for (uint h = gl_WorkGroupID.x; h < heads; h += gl_NumWorkGroups.x) {
        const uint first = h * MOST_PARTS * STATE;
        uint looks = 0;
        uvec2 states;
        do {
            states = there.v[first + min(t / 2, parts - 1) * STATE + HEAD_DIM + t % 2];
        } while (again(states.y == wanted, looks));
        if (t < 2 * parts) part_state[t % 2][t / 2] = uintBitsToFloat(states.x);
        uvec2 found[EACH];
        bool all;
        do {
            all = true;
            [[unroll]] for (uint j = 0; j < EACH; j++) {
                found[j] = there.v[first + min(t / HEAD_DIM + j * GROUPED, parts - 1) * STATE + t % HEAD_DIM];
            }
            [[unroll]] for (uint j = 0; j < EACH; j++) all = all && found[j].y == wanted;
        } while (again(all, looks));
        barrier();
        float most = -1e30, total = 0.0, o = 0.0;
        for (uint i = 0; i < parts; i++) most = max(most, part_state[0][i]);
        for (uint i = 0; i < parts; i++) total += exp(part_state[0][i] - most) * part_state[1][i];
        [[unroll]] for (uint j = 0; j < EACH; j++) {
            const uint part = t / HEAD_DIM + j * GROUPED;
            if (part < parts) o += exp(part_state[0][part] - most) * uintBitsToFloat(found[j].x);
        }
        if (t < GROUPED * HEAD_DIM) x_codes[t / 4][t % 4] = floatBitsToUint(o);
        barrier();
        if (t < HEAD_DIM / 4) {
            vec4 all_of = vec4(0.0);
            for (uint g = 0; g < GROUPED; g++) all_of += uintBitsToFloat(x_codes[g * (HEAD_DIM / 4) + t]);
            outgoing[t] = all_of / total;
            outgoing_squares[t] = vec4(0.0);
            [[unroll]] for (uint e = 0; e < 4; e++) y.v[h * HEAD_DIM + 4 * t + e] = all_of[e] / total;
        }
        barrier();
        if (is(SEND) && t < HEAD_DIM / 16) send(t, h * (HEAD_DIM / 16) + t);
        barrier();
    }
}
