// The USED of EXPERTS with the largest logits. All threads put logits and rank them; each expert's rank says where it stands, so
// that no turn waits for another. Where experts are many for the threads, a subgroup takes the largest USED times instead.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

const uint QUADS = (EXPERTS + 3) / 4;
const float LEAST_SUM = 6.103515625e-5; // of the weights, that they are divided by
// Logits as integers in the same order, which is total: whatever they are, every place has one expert. The last places that
// no expert has hold the least of all.
shared uvec4 keys[QUADS];
const uint SHARES = gl_WorkGroupSize.x < 2 * EXPERTS ? 1 : gl_WorkGroupSize.x < 4 * EXPERTS ? 2 : 4; // threads of an expert
shared uint ranks[EXPERTS];
const uint TURNS = (EXPERTS * SHARES + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x * QUADS / SHARES; // of a thread that ranks
const bool RANKED = TURNS <= 64 || EXPERTS > 512;
shared uint chosen[USED];
shared float weight_of[USED];

float logit_at(uint i) {
    uint key = keys[i / 4][i % 4];
    return uintBitsToFloat(key ^ (int(key) < 0 ? 0x80000000u : 0xffffffffu));
}
void put_logit(uint i, float logit) {
    uint bits = floatBitsToUint(logit);
    keys[i / 4][i % 4] = bits ^ (int(bits) < 0 ? 0xffffffffu : 0x80000000u);
}
float weights_sum; // of weight_of

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

// The first of equal logits wins.
void rank_experts() {
    uint t = gl_LocalInvocationID.x, lane = gl_SubgroupInvocationID;
    if (t < 4 * QUADS - EXPERTS) keys[QUADS - 1][3 - t] = 0;
    for (uint i = t; i < EXPERTS; i += gl_WorkGroupSize.x) ranks[i] = 0;
    barrier();
    // Each subgroup does the whole softmax: that is less than to meet for it.
    float most = logit_at(0), all = 0.0;
    for (uint i = lane; i < EXPERTS; i += gl_SubgroupSize) most = max(most, logit_at(i));
    most = subgroupMax(most);
    for (uint i = lane; i < EXPERTS; i += gl_SubgroupSize) all += exp(logit_at(i) - most);
    all = subgroupAdd(all);
    if (!RANKED) {
        if (gl_SubgroupID == 0) take_largest();
        barrier();
        for (uint k = t; k < USED; k += gl_WorkGroupSize.x) weight_of[k] = exp(logit_at(chosen[k]) - most) / all;
    }
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
        uint rank = ranks[i];
        if (rank < USED) {
            chosen[rank] = i;
            weight_of[rank] = exp(logit_at(i) - most) / all;
        }
    }
    barrier();
    float sum = 0.0;
    for (uint k = 0; k < USED; k++) sum += weight_of[k];
    weights_sum = max(sum, LEAST_SUM);
}
