// The router of a layer of experts as stages of megakernel.glsl: each workgroup has some experts' logits, by the values themselves and
// not their codes; then all workgroups choose, each for itself.
#include "lib/top_k_softmax.glsl"
const uint ROUTER_VECS = (K / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
shared float router_sums[2][gl_WorkGroupSize.x / 8];

void route() {
    const uint t = gl_LocalInvocationID.x, expected = epochs + word(AT_EPOCH_IN);
    const uvec2 norm_at = address(AT_NORM), matrix = address(AT_W), out_at = address(AT_MESSAGES_OUT);
    const bool normed = is(NORM);
    Values there = Values(address(AT_MESSAGES_IN));
    for (uint e = gl_WorkGroupID.x; e < EXPERTS; e += gl_NumWorkGroups.x) {
        vec4 w[ROUTER_VECS], x[ROUTER_VECS];
        [[unroll]] for (uint j = 0; j < ROUTER_VECS; j++) {
            const uint i = min(t + j * gl_WorkGroupSize.x, K / 4 - 1);
            w[j] = F32x4(matrix).v[e * (K / 4) + i];
            if (normed) w[j] *= F32x4(norm_at).v[i];
        }
        uint spins = 0;
        bool found;
        do {
            found = true;
            [[unroll]] for (uint j = 0; j < ROUTER_VECS; j++) {
                const uint i = 4 * min(t + j * gl_WorkGroupSize.x, K / 4 - 1);
                [[unroll]] for (uint c = 0; c < 4; c++) {
                    const uvec2 value = there.v[i + c];
                    x[j][c] = uintBitsToFloat(value.x);
                    found = found && value.y == expected;
                }
            }
        } while (again(found, spins));
        float sum = 0.0, square = 0.0;
        [[unroll]] for (uint j = 0; j < ROUTER_VECS; j++) {
            const bool mine = t + j * gl_WorkGroupSize.x < K / 4;
            sum += mine ? dot(w[j], x[j]) : 0.0;
            square += mine ? dot(x[j], x[j]) : 0.0;
        }
        sum = subgroupAdd(sum);
        square = subgroupAdd(square);
        if (gl_SubgroupInvocationID == 0) {
            router_sums[0][gl_SubgroupID] = sum;
            router_sums[1][gl_SubgroupID] = square;
        }
        barrier();
        if (t == 0) {
            sum = 0.0;
            square = 0.0;
            for (uint i = 0; i < gl_NumSubgroups; i++) {
                sum += router_sums[0][i];
                square += router_sums[1][i];
            }
            sum *= uintBitsToFloat(words[stage][AT_SCALE]);
            if (normed) sum /= sqrt(square / float(K) + uintBitsToFloat(words[stage][AT_EPS]));
            Values(out_at).v[e] = uvec2(floatBitsToUint(sum), epochs + words[stage][AT_EPOCH_OUT]);
        }
        barrier();
    }
}

// Finds the experts by the logits of the stage before.
void choose_experts() {
    const uint t = gl_LocalInvocationID.x, expected = epochs + word(AT_VALUES_EPOCH);
    Values there = Values(address(AT_VALUES));
    for (uint from = 0; from < EXPERTS; from += gl_WorkGroupSize.x) {
        const uint i = min(from + t, EXPERTS - 1);
        uint spins = 0;
        uvec2 value;
        do {
            value = there.v[i];
        } while (again(value.y == expected, spins));
        if (from + t < EXPERTS) put_logit(i, uintBitsToFloat(value.x));
    }
    rank_experts();
    const float by = number(AT_SCALE) / weights_sum;
    barrier();
    if (t < USED) weight_of[t] *= by;
    barrier();
}
