// Codes the activations of a stage of CODE_K inputs, as gemv_dot.comp does.
void CODE_NAME() {
    const uint VECS = (CODE_K / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
    const bool normed = CODE_NORM && is(NORM);
    uint t = gl_LocalInvocationID.x;
    Met4 x = Met4(address(AT_X));
    vec4 held[VECS];
    [[unroll]] for (uint j = 0; j < VECS; j++) held[j] = x.v[min(t + j * gl_WorkGroupSize.x, CODE_K / 4 - 1)];
    float square = 0.0;
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        bool there = i < CODE_K / 4;
        if (CODE_NORM) {
            square += there ? dot(held[j], held[j]) : 0.0;
            held[j] *= weights[min(j, NORM_VECS - 1)];
        }
        vec4 a = abs(held[j]);
        if (there) x_codes[unit_at(i / 2)][2 * (i % 2)] = floatBitsToUint(max(max(a.x, a.y), max(a.z, a.w)));
    }
    if (normed) {
        square = subgroupAdd(square);
        if (subgroupElect()) squares[gl_SubgroupID] = square;
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    float largest_of[VECS];
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = min(t + j * gl_WorkGroupSize.x, CODE_K / 4 - 1);
        largest_of[j] = 0.0;
        [[unroll]] for (uint u = 0; u < 4; u++) {
            vec4 most = uintBitsToFloat(x_codes[unit_at(i / 8 * 4 + u)]);
            largest_of[j] = max(largest_of[j], max(most.x, most.z));
        }
    }
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        float largest = largest_of[j], inverse = largest > 1e-30 ? STEPS / largest : 0.0;
        ivec4 q = floatBitsToInt(held[j] * inverse + 12582912.0) - 0x4b400000, high = (q + 128) >> 8;
        if (i < CODE_K / 4) {
            uint unit = unit_at(i / 2);
            x_codes[unit][2 * (i % 2)] = packed(high);
            x_codes[unit][2 * (i % 2) + 1] = packed(q - (high << 8));
            if (i % 8 == 0) x_run[i / 8].x = largest / STEPS;
        }
    }
#ifdef SUMS
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i % 8 == 0 && i < CODE_K / 4) {
            ivec2 high = ivec2(0), low = ivec2(0);
            [[unroll]] for (uint u = 0; u < 4; u++) {
                ivec4 a = ivec4(x_codes[unit_at(i / 2) + u]);
                high[u / 2] = dotPacked4x8EXT(0x01010101, a.z) + (dotPacked4x8EXT(0x01010101, a.x) + high[u / 2]);
                low[u / 2] = dotPacked4x8EXT(0x01010101, a.w) + (dotPacked4x8EXT(0x01010101, a.y) + low[u / 2]);
            }
            vec2 sums = largest_of[j] / STEPS * vec2(high * 256 + low);
            x_sum[i / 8] = sums;
            x_run[i / 8].y = sums.x + sums.y;
        }
    }
#endif
    barrier();
    norm_scale = 1.0;
    if (normed) {
        square = 0.0;
        for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) square += squares[i];
        norm_scale = 1.0 / sqrt(subgroupAdd(square) / float(CODE_K) + number(AT_EPS));
    }
}
#undef CODE_NAME
#undef CODE_K
#undef CODE_NORM
