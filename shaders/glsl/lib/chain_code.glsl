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
        if (there) tell_largest(0, i, held[j]);
    }
    if (normed) {
        square = subgroupAdd(square);
        if (subgroupElect()) squares[gl_SubgroupID] = square;
    }
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    float largest_of[VECS];
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        largest_of[j] = largest_told(0, min(t + j * gl_WorkGroupSize.x, CODE_K / 4 - 1));
    }
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i < CODE_K / 4) {
            put_codes(0, i, held[j], largest_of[j]);
            if (i % 8 == 0) x_run[i / 8].x = largest_of[j] / STEPS;
        }
    }
#ifdef SUMS
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        if (i % 8 == 0 && i < CODE_K / 4) {
            uint at = unit_of(i);
            vec2 sums = largest_of[j] / STEPS * vec2(sum_of_half(at), sum_of_half(at + 16 / UNIT));
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
