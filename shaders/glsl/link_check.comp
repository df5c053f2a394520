// One stage of the links' self-test: every workgroup checks that two others have done the stage before, then says that it has
// done this one.
#version 460
#include "lib/types.glsl"
#include "lib/link.glsl"
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
    Links words; // [groups]: stages done; then the number of wrong ones
    Links links;
    uint link;
    uint stage;
};

void main() {
    link_await(links, link);
    uint groups = gl_NumWorkGroups.x, me = gl_WorkGroupID.x;
    if (gl_LocalInvocationID.x == 0) {
        bool right = words.v[me] == stage && words.v[(me + groups / 2 + 1) % groups] >= stage;
        if (!right) atomicAdd(words.v[groups], 1);
        words.v[me] = stage + 1;
    }
    link_done(links, link);
}
