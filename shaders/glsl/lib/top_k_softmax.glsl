// The USED of EXPERTS with the largest logits, and their weights: a softmax over all, to be divided by `weights_sum`.
#include "lib/top_k.glsl"
const float LEAST_SUM = 6.103515625e-5; // of the weights, that they are divided by
shared float weight_of[USED];
float weights_sum; // of weight_of

// All threads call it after they put logits.
void rank_experts() {
    rank_keys();
    const uint t = gl_LocalInvocationID.x, lane = gl_SubgroupInvocationID;
    // Each subgroup does the whole softmax: that is less than to meet for it.
    float most = logit_at(0), all = 0.0;
    for (uint i = lane; i < EXPERTS; i += gl_SubgroupSize) most = max(most, logit_at(i));
    most = subgroupMax(most);
    for (uint i = lane; i < EXPERTS; i += gl_SubgroupSize) all += exp(logit_at(i) - most);
    all = subgroupAdd(all);
    for (uint k = t; k < USED; k += gl_WorkGroupSize.x) weight_of[k] = exp(logit_at(chosen[k]) - most) / all;
    barrier();
    float sum = 0.0;
    for (uint k = 0; k < USED; k++) sum += weight_of[k];
    weights_sum = max(sum, LEAST_SUM);
}
