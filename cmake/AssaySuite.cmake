# assay_add_suite(NAME <family> SOURCES <files> LABELS <labels> [LIBRARIES <targets>] [TIMEOUT <seconds>] [GPU_ONLY])
#
# One binary, <family>_suite, and its CTest entries: <family>.cpu, <family>.gpu, <family>.smoke and <family>.smoke.gpu. Exit code
# 77 is a skip by return code (a regular expression would hide the failures of a process that both fails and skips). Labels
# are set by set_tests_properties, since CTest 3.25 keeps only the first of a list that gtest_discover_tests is given.
# A process costs 1-2 s to start with a CUDA LibTorch: hence one entry per family and device kind, not one per check.
function(assay_add_suite)
  cmake_parse_arguments(arg "GPU_ONLY" "NAME;TIMEOUT" "SOURCES;LABELS;LIBRARIES" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "assay_add_suite needs NAME and SOURCES; it does not know: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 1800)
  endif()
  set(binary "${arg_NAME}_suite")
  add_executable(${binary} ${arg_SOURCES})
  target_link_libraries(${binary} PRIVATE assay_options assay_fixtures ${arg_LIBRARIES})
  target_precompile_headers(${binary} REUSE_FROM assay_fixtures)
  install(TARGETS ${binary} RUNTIME DESTINATION bin)
  set(line "${arg_NAME}")
  if(arg_GPU_ONLY)
    string(APPEND line " cuda")  # run-assay: on this kind of device alone
  endif()
  set_property(GLOBAL APPEND PROPERTY ASSAY_SUITES "${line}")

  if(NOT arg_GPU_ONLY)
    assay_add_entry(${arg_NAME}.cpu "cpu;${arg_LABELS};${arg_NAME}" ${arg_TIMEOUT} no_gpu ${binary} --device cpu)
    assay_add_entry(${arg_NAME}.smoke "smoke" 300 no_gpu ${binary} --device cpu --smoke)
  endif()
  set(gpus one_gpu)
  if("multi-gpu" IN_LIST arg_LABELS)
    set(gpus all_gpus)
  endif()
  assay_add_entry(${arg_NAME}.gpu "gpu;${arg_LABELS};${arg_NAME}" ${arg_TIMEOUT} ${gpus} ${binary} --device cuda)
  assay_add_entry(${arg_NAME}.smoke.gpu "smoke" 300 ${gpus} ${binary} --device cuda --smoke)
endfunction()

# One CTest entry of a suite, which needs the run folder that the fixture `run.start` makes. Entries are lines for CTest to read,
# of which the build folder and the installed tree get a copy each (assay_write_entries): how suites share the GPUs is decided
# when CTest starts, for `gpus`: no_gpu, one_gpu, all_gpus.
function(assay_add_entry name labels timeout gpus binary)
  list(JOIN ARGN " " arguments)
  string(CONCAT entry
    "add_test(${name} \"@PROGRAMS@/${binary}\" ${arguments})\n"
    "set_tests_properties(${name} PROPERTIES LABELS \"${labels}\" TIMEOUT ${timeout} SKIP_RETURN_CODE 77 FIXTURES_REQUIRED assay_run\n"
    "  ENVIRONMENT \"ASSAY_RUN_FILE=@RUN_FILE@\" \${${gpus}})\n")
  set_property(GLOBAL APPEND_STRING PROPERTY ASSAY_ENTRIES "${entry}")
endfunction()

# assay_write_entries(<file> START <command line of run.start> PROGRAMS <folder> RUN_FILE <file>)
function(assay_write_entries file)
  cmake_parse_arguments(arg "" "START;PROGRAMS;RUN_FILE" "" ${ARGN})
  get_property(entries GLOBAL PROPERTY ASSAY_ENTRIES)
  string(REPLACE "@PROGRAMS@" "${arg_PROGRAMS}" entries "${entries}")
  string(REPLACE "@RUN_FILE@" "${arg_RUN_FILE}" entries "${entries}")
  file(WRITE "${file}" [[
# With a resource specification (assay resources) each suite gets one GPU of it; without one, all GPUs, one suite after another.
set(no_gpu)
if("$ENV{ASSAY_RESOURCES}" STREQUAL "")
  set(one_gpu RESOURCE_LOCK gpu)
  set(all_gpus RESOURCE_LOCK gpu)
else()
  set(one_gpu RESOURCE_GROUPS gpus:1)
  set(all_gpus RUN_SERIAL TRUE)
endif()
# Every CTest call is one run: its folder is made before the first suite, which then writes the environment manifest there.
]] "add_test(run.start ${arg_START})\n"
   "set_tests_properties(run.start PROPERTIES FIXTURES_SETUP assay_run TIMEOUT 120)\n${entries}")
endfunction()

# assay_add_selftest(<binary> SOURCES <files> LIBRARIES <libraries>): a binary of unit tests, label selftest.
function(assay_add_selftest binary)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_SOURCES)
    return()
  endif()
  add_executable(${binary} ${arg_SOURCES})
  target_link_libraries(${binary} PRIVATE assay_options ${arg_LIBRARIES} GTest::gtest_main)
  if("assay_fixtures" IN_LIST arg_LIBRARIES)
    target_precompile_headers(${binary} REUSE_FROM assay_fixtures)
  endif()
  add_test(NAME ${binary} COMMAND ${binary})
  set_tests_properties(${binary} PROPERTIES LABELS selftest TIMEOUT 900)
endfunction()
