# The installed tree: programs, goldens, known defects, a CTest file with relative paths, and one script, run-assay, which
# needs LibTorch and a driver on the runner but neither a compiler nor CMake.
get_property(suites GLOBAL PROPERTY ASSAY_SUITES)
# CTest works in this file's folder and tells the file nothing of it: all paths are relative.
assay_write_entries("${CMAKE_BINARY_DIR}/installed/CTestTestfile.cmake" PROGRAMS bin RUN_FILE current_run
                    START "\"lib/assay/start-run\" \"current_run\" \"results\"")
list(JOIN suites "\n" lines)
file(WRITE "${CMAKE_BINARY_DIR}/installed/suites.txt" "${lines}\n")
file(WRITE "${CMAKE_BINARY_DIR}/installed/libtorch.txt" "${ASSAY_TORCH_FOUND}\n")

install(FILES "${CMAKE_BINARY_DIR}/installed/CTestTestfile.cmake" DESTINATION .)
install(FILES "${CMAKE_BINARY_DIR}/installed/suites.txt" "${CMAKE_BINARY_DIR}/installed/libtorch.txt" DESTINATION lib/assay)
install(PROGRAMS tools/lib/start-run DESTINATION lib/assay)
install(FILES tools/lib/runtime.sh DESTINATION lib/assay)
install(PROGRAMS tools/run-assay DESTINATION .)
install(DIRECTORY golden/data DESTINATION golden OPTIONAL)
install(FILES golden/index.json DESTINATION golden OPTIONAL)
install(FILES suites/known_defects.json suites/checks.json DESTINATION suites OPTIONAL)
install(DIRECTORY profiles DESTINATION .)
install(FILES LICENSE DESTINATION .)
