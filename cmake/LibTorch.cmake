# Finds LibTorch and makes the imported target `torch` from its include and lib folders.
#
# Why not find_package(Torch): on a CUDA build it insists on a CUDA toolkit, probes architectures (and fails here without
# TORCH_CUDA_ARCH_LIST), takes seconds, and puts the toolkit's folders into the rpath, where an older NCCL or another cuDNN
# of the same soname silently replaces the one that LibTorch was built with. A suite that only calls LibTorch needs its
# headers, its libraries, and the CUDA headers that the wheel brings along: measured, this file takes 0.1 s.
set(ASSAY_LIBTORCH "" CACHE PATH "LibTorch: a torch folder with include/ and lib/, or a Python environment that holds one")
set(ASSAY_TORCH_VERSION "2.11.0" CACHE STRING "version of LibTorch to look for in the user's cache folder")
set(ASSAY_TORCH_MIN 2.9)
set(ASSAY_TORCH_MAX 2.15)

# The torch folder at or under `where`, or "" where there is none: torch itself, site-packages, a virtual environment, or
# torch/share/cmake (what torch.utils.cmake_prefix_path names).
function(assay_torch_folder where result)
  file(GLOB candidates "${where}" "${where}/torch" "${where}/libtorch" "${where}/../.."
       "${where}/lib/python3*/site-packages/torch")
  set(${result} "" PARENT_SCOPE)
  foreach(candidate IN LISTS candidates)
    if(EXISTS "${candidate}/lib/libtorch_cpu.so" AND EXISTS "${candidate}/include/ATen/ATen.h")
      get_filename_component(candidate "${candidate}" REALPATH)
      set(${result} "${candidate}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# "2.11" of a torch folder, from its own header; "" where it is not told.
function(assay_torch_version folder result)
  set(${result} "" PARENT_SCOPE)
  foreach(header include/torch/headeronly/version.h include/torch/csrc/api/include/torch/version.h)
    if(EXISTS "${folder}/${header}")
      file(STRINGS "${folder}/${header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR) +[0-9]+")
      string(REGEX MATCH "VERSION_MAJOR +([0-9]+)" ignored "${lines}")
      set(major "${CMAKE_MATCH_1}")
      string(REGEX MATCH "VERSION_MINOR +([0-9]+)" ignored "${lines}")
      if(NOT major STREQUAL "")
        set(${result} "${major}.${CMAKE_MATCH_1}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

function(assay_torch_supported version result)
  if(version VERSION_LESS ASSAY_TORCH_MIN OR version VERSION_GREATER ASSAY_TORCH_MAX)
    set(${result} OFF PARENT_SCOPE)
  else()
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

# Where LibTorch is: the option, CMAKE_PREFIX_PATH, Python's own torch if its version is supported, the user's cache folder.
# What the user names must be right (an error otherwise); what is merely found may be passed over.
function(assay_find_torch result)
  if(ASSAY_LIBTORCH)
    assay_torch_folder("${ASSAY_LIBTORCH}" folder)
    if(NOT folder)
      message(FATAL_ERROR "There is no LibTorch in ASSAY_LIBTORCH=${ASSAY_LIBTORCH}: name the folder that holds "
                          "include/ATen and lib/libtorch_cpu.so.")
    endif()
    set(${result} "${folder}" PARENT_SCOPE)
    return()
  endif()
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
    assay_torch_folder("${prefix}" folder)
    if(folder)
      set(${result} "${folder}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  # find_spec instead of import: the import alone would take two seconds.
  execute_process(
    COMMAND python3 -c
            "import importlib.util as u; s = u.find_spec('torch'); print(next(iter(s.submodule_search_locations)))"
    OUTPUT_VARIABLE python_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(DEFINED ENV{XDG_CACHE_HOME})
    set(cache "$ENV{XDG_CACHE_HOME}/assay")
  else()
    set(cache "$ENV{HOME}/.cache/assay")
  endif()
  foreach(place "${python_torch}" "${cache}/libtorch-${ASSAY_TORCH_VERSION}")
    if(place)
      assay_torch_folder("${place}" folder)
      if(folder)
        assay_torch_version("${folder}" version)
        assay_torch_supported("${version}" supported)
        if(supported)
          set(${result} "${folder}" PARENT_SCOPE)
          return()
        endif()
        message(STATUS "Passing over LibTorch ${version} in ${folder}: Assay needs ${ASSAY_TORCH_MIN} to ${ASSAY_TORCH_MAX}")
      endif()
    endif()
  endforeach()
  message(FATAL_ERROR "No LibTorch ${ASSAY_TORCH_MIN} to ${ASSAY_TORCH_MAX} found: run tools/selftest, which installs one, "
                      "or name yours with -DASSAY_LIBTORCH=<folder with include/ and lib/>.")
endfunction()

assay_find_torch(ASSAY_TORCH_FOLDER)
assay_torch_version("${ASSAY_TORCH_FOLDER}" ASSAY_TORCH_FOUND)
assay_torch_supported("${ASSAY_TORCH_FOUND}" _supported)
if(NOT _supported)
  message(FATAL_ERROR "LibTorch ${ASSAY_TORCH_FOUND} in ${ASSAY_TORCH_FOLDER} is not supported: Assay needs "
                      "${ASSAY_TORCH_MIN} to ${ASSAY_TORCH_MAX}; name another with -DASSAY_LIBTORCH=<folder>.")
endif()

add_library(torch INTERFACE)
target_include_directories(torch SYSTEM INTERFACE "${ASSAY_TORCH_FOLDER}/include"
                                                  "${ASSAY_TORCH_FOLDER}/include/torch/csrc/api/include")
set(_libraries c10 torch_cpu torch)
# Library folders in the order in which the loader shall search them: LibTorch's own environment first.
set(ASSAY_TORCH_LIBRARY_FOLDERS "${ASSAY_TORCH_FOLDER}/lib")
set(ASSAY_HAS_CUDA OFF)
set(_cudart "")
if(EXISTS "${ASSAY_TORCH_FOLDER}/lib/libtorch_cuda.so")
  set(ASSAY_HAS_CUDA ON)
  list(APPEND _libraries c10_cuda torch_cuda)
  file(GLOB _nvidia_lib "${ASSAY_TORCH_FOLDER}/../nvidia/*/lib")
  list(APPEND ASSAY_TORCH_LIBRARY_FOLDERS ${_nvidia_lib})
  # The wheel carries the CUDA headers; the folders of a toolkit serve a LibTorch archive, which does not.
  file(GLOB _cuda_include "${ASSAY_TORCH_FOLDER}/../nvidia/*/include")
  find_path(ASSAY_CUDA_INCLUDE cuda_runtime_api.h
            HINTS ${_cuda_include} ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
  file(GLOB _cudart "${ASSAY_TORCH_FOLDER}/../nvidia/*/lib/libcudart.so.*" "${ASSAY_TORCH_FOLDER}/lib/libcudart*.so*"
       "${ASSAY_CUDA_INCLUDE}/../lib64/libcudart.so")
  # CUDA 13's runtime wheel leaves out crt/, which its own headers include. Triton, which LibTorch's wheel requires, brings it.
  find_path(ASSAY_CUDA_CRT_INCLUDE crt/host_defines.h
            HINTS ${_cuda_include} "${ASSAY_TORCH_FOLDER}/../triton/backends/nvidia/include" ENV CUDA_HOME ENV CUDA_PATH
            PATHS /usr/local/cuda PATH_SUFFIXES include)
  if(NOT ASSAY_CUDA_INCLUDE OR NOT ASSAY_CUDA_CRT_INCLUDE OR NOT _cudart)
    message(FATAL_ERROR "LibTorch in ${ASSAY_TORCH_FOLDER} is a CUDA build, but cuda_runtime_api.h, crt/host_defines.h or "
                        "libcudart is neither beside it (nvidia/*, triton) nor in a toolkit: set CUDA_HOME, or use the wheel.")
  endif()
  list(GET _cudart 0 _cudart)
  target_include_directories(torch SYSTEM INTERFACE ${_cuda_include} "${ASSAY_CUDA_INCLUDE}"
                                                    "${ASSAY_CUDA_CRT_INCLUDE}")
  target_compile_definitions(torch INTERFACE ASSAY_HAS_CUDA=1)
  # cuDNN itself, for the suites that call it without LibTorch in between: the one that LibTorch was built with.
  find_path(ASSAY_CUDNN_INCLUDE cudnn.h HINTS ${_cuda_include} "${ASSAY_CUDA_INCLUDE}")
  file(GLOB _cudnn "${ASSAY_TORCH_FOLDER}/../nvidia/cudnn/lib/libcudnn.so.9" "${ASSAY_TORCH_FOLDER}/lib/libcudnn.so.9"
       "${ASSAY_CUDNN_INCLUDE}/../lib64/libcudnn.so.9")
  if(ASSAY_CUDNN_INCLUDE AND _cudnn)
    list(GET _cudnn 0 _cudnn)
    add_library(cudnn INTERFACE)
    target_include_directories(cudnn SYSTEM INTERFACE "${ASSAY_CUDNN_INCLUDE}")
    target_link_libraries(cudnn INTERFACE "${_cudnn}")
    target_compile_definitions(cudnn INTERFACE ASSAY_HAS_CUDNN=1)
  endif()
endif()
list(TRANSFORM _libraries PREPEND "${ASSAY_TORCH_FOLDER}/lib/lib")
list(TRANSFORM _libraries APPEND ".so")
# --no-as-needed: nothing of ours refers to libtorch_cuda, yet loading it is what registers the CUDA kernels.
target_link_libraries(torch INTERFACE "-Wl,--push-state,--no-as-needed" ${_libraries} ${_cudart} "-Wl,--pop-state")
foreach(_folder IN LISTS ASSAY_TORCH_LIBRARY_FOLDERS)
  target_link_options(torch INTERFACE "LINKER:-rpath-link,${_folder}")
endforeach()
# A RUNPATH, not an RPATH: LD_LIBRARY_PATH stays the deliberate lever to try another cuDNN or NCCL (both versions, compiled
# and loaded, are recorded). Installed programs carry none; run-assay sets LD_LIBRARY_PATH.
list(APPEND CMAKE_BUILD_RPATH ${ASSAY_TORCH_LIBRARY_FOLDERS})
message(STATUS "LibTorch ${ASSAY_TORCH_FOUND} (CUDA: ${ASSAY_HAS_CUDA}) in ${ASSAY_TORCH_FOLDER}")
