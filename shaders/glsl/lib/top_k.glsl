// The USED of EXPERTS with the largest keys. All threads put logits, or what stands for them, and rank them; each expert's rank says
// where it stands, so that no turn waits for another. Where experts are many for the threads, a subgroup takes the largest USED times.
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

// The experts in order, by the first subgroup: a thread has every gl_SubgroupSize-th of them, and marks those that are taken.
void take_largest() {
    uint taken[2] = uint[2](0, 0); // of up to 64, with 8 threads or more
    for (uint k = 0; k < USED; k++) {
        uint most = 0, at = 0xffffffff;
        for (uint e = 0, i = gl_SubgroupInvocationID; i < EXPERTS; e++, i += gl_SubgroupSize) {
            const uint key = keys[i / 4][i % 4];
            if ((taken[e / 32] >> e % 32 & 1) == 1 || at != 0xffffffff && key <= most) continue;
            most = key;
            at = i;
        }
        const uint largest = subgroupMax(most);
        const uint first = subgroupMin(most == largest ? at : 0xffffffff);
        if (at == first) {
            const uint e = at / gl_SubgroupSize;
            taken[e / 32] |= 1u << e % 32;
        }
        if (gl_SubgroupInvocationID == 0) chosen[k] = first;
    }
}

// Fills `chosen` by the keys that all threads put. The first of equal ones wins.
void rank_keys() {
    const uint t = gl_LocalInvocationID.x;
    if (t < 4 * QUADS - EXPERTS) keys[QUADS - 1][3 - t] = 0;
    for (uint i = t; i < EXPERTS; i += gl_WorkGroupSize.x) ranks[i] = 0;
    barrier();
    if (!RANKED && gl_SubgroupID == 0) take_largest();
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
