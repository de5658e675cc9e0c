// For files to which every function is what its plain name says: undoes names.h.
#pragma once

#undef cudaStreamGetCaptureInfo
#if CUDART_VERSION < 13000
#undef cudaStreamUpdateCaptureDependencies
#undef cudaMemAdvise
#undef cudaMemPrefetchAsync
#undef cudaGraphGetEdges
#undef cudaGraphNodeGetDependencies
#undef cudaGraphNodeGetDependentNodes
#undef cudaGraphAddDependencies
#undef cudaGraphRemoveDependencies
#undef cudaGraphAddNode
#endif
