// Where a thread and a workgroup are in a grid that has a second dimension because the first has not room for all.
uint number_of_group() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
uint number_of_thread() { return number_of_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }
