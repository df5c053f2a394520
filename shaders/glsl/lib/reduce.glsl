// Sums and maxima over a workgroup of any subgroup size. Every thread gets the result.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

shared float reduce_part[128];

float workgroup_sum(float x) {
    x = subgroupAdd(x);
    if (gl_NumSubgroups == 1) return x;
    barrier();
    if (subgroupElect()) reduce_part[gl_SubgroupID] = x;
    barrier();
    float sum = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) sum += reduce_part[i];
    return subgroupAdd(sum);
}

float workgroup_max(float x) {
    x = subgroupMax(x);
    if (gl_NumSubgroups == 1) return x;
    barrier();
    if (subgroupElect()) reduce_part[gl_SubgroupID] = x;
    barrier();
    float best = reduce_part[0];
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) best = max(best, reduce_part[i]);
    return subgroupMax(best);
}
