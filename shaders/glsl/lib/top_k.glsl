// The USED of EXPERTS with the largest keys. All threads put logits, or what stands for them, and rank them; each expert's rank says
// where it stands, so that no turn waits for another. Where experts are many for the threads, subgroups take their largest USED times.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

const uint QUADS = (EXPERTS + 3) / 4;
// Logits as integers in the same order, which is total: whatever they are, every place has one expert. The last places that
// no expert has hold the least of all.
shared uvec4 keys[QUADS];
const uint SHARES = gl_WorkGroupSize.x < 2 * EXPERTS ? 1 : gl_WorkGroupSize.x < 4 * EXPERTS ? 2 : 4; // threads of an expert
shared uint ranks[EXPERTS];
const uint TURNS = (EXPERTS * SHARES + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x * QUADS / SHARES; // of a thread that ranks
const bool RANKED = TURNS <= 64 || EXPERTS > 512;
shared uint chosen[USED];

float logit_at(uint i) {
    uint key = keys[i / 4][i % 4];
    return uintBitsToFloat(key ^ (int(key) < 0 ? 0x80000000u : 0xffffffffu));
}
uint key_of(float x) {
    const uint bits = floatBitsToUint(x);
    return bits ^ (int(bits) < 0 ? 0xffffffffu : 0x80000000u);
}
void put_logit(uint i, float logit) { keys[i / 4][i % 4] = key_of(logit); }

// Each subgroup's largest keys, in order, of the experts that its threads have, and how many of them are taken.
const uint EACH_HAS = (EXPERTS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint MOST_SUBGROUPS = RANKED ? 1 : gl_WorkGroupSize.x / 4;
const uint NO_EXPERT = 0xffffffff;
shared uint best_of[MOST_SUBGROUPS * USED], heads[MOST_SUBGROUPS];

// The thread's best of those that beat `most`, or are the first of equal ones.
void prefer(uint expert, inout uint most, inout uint at) {
    if (expert >= EXPERTS) return;
    const uint key = keys[expert / 4][expert % 4];
    if (at != NO_EXPERT && (key < most || key == most && expert > at)) return;
    most = key;
    at = expert;
}

// The expert with the subgroup's largest key; the first of equal ones.
uint largest_of(uint most, uint at) {
    const uint largest = subgroupMax(most);
    return subgroupMin(most == largest ? at : NO_EXPERT);
}

// The experts in order: every subgroup finds the largest of its own, and the first one merges these.
void take_largest() {
    const uint t = gl_LocalInvocationID.x, lane = gl_SubgroupInvocationID, mine = gl_SubgroupID * USED;
    uint taken[(EACH_HAS + 31) / 32];
    [[unroll]] for (uint i = 0; i < taken.length(); i++) taken[i] = 0;
    for (uint k = 0; k < USED; k++) {
        uint most = 0, at = NO_EXPERT;
        [[unroll]] for (uint e = 0; e < EACH_HAS; e++) {
            if ((taken[e / 32] >> e % 32 & 1) == 0) prefer(t + e * gl_WorkGroupSize.x, most, at);
        }
        const uint first = largest_of(most, at);
        const uint e = at / gl_WorkGroupSize.x;
        if (at == first && at != NO_EXPERT) taken[e / 32] |= 1u << e % 32;
        if (lane == 0) best_of[mine + k] = first;
    }
    if (lane == 0) heads[gl_SubgroupID] = 0;
    barrier();
    if (gl_SubgroupID != 0) return;
    for (uint k = 0; k < USED; k++) {
        uint most = 0, at = NO_EXPERT, from = 0;
        for (uint s = lane; s < gl_NumSubgroups; s += gl_SubgroupSize) {
            const uint before = at;
            prefer(best_of[s * USED + heads[s]], most, at);
            if (at != before) from = s;
        }
        const uint first = largest_of(most, at);
        if (at == first && at != NO_EXPERT) heads[from]++;
        if (lane == 0) chosen[k] = first;
    }
}

// Fills `chosen` by the keys that all threads put. The first of equal ones wins.
void rank_keys() {
    const uint t = gl_LocalInvocationID.x;
    if (t < 4 * QUADS - EXPERTS) keys[QUADS - 1][3 - t] = 0;
    for (uint i = t; i < EXPERTS; i += gl_WorkGroupSize.x) ranks[i] = 0;
    barrier();
    if (!RANKED) take_largest();
    for (uint at = t; RANKED && at < EXPERTS * SHARES; at += gl_WorkGroupSize.x) {
        uint i = at / SHARES, mine = keys[i / 4][i % 4], rank = 0;
        for (uint q = at % SHARES; q < QUADS; q += SHARES) {
            uvec4 other = keys[q];
            [[unroll]] for (uint j = 0; j < 4; j++) rank += uint(other[j] > mine || (other[j] == mine && 4 * q + j < i));
        }
        atomicAdd(ranks[i], rank);
    }
    barrier();
    for (uint i = t; RANKED && i < EXPERTS; i += gl_WorkGroupSize.x) {
        if (ranks[i] < USED) chosen[ranks[i]] = i;
    }
    barrier();
}
