# The command, and the page's files inside the library that writes it.
$(BUILD)/obj/report/html/assets.o: report/html/assets.S report/html/report.html report/html/style.css $(wildcard report/html/script/*)
	mkdir -p $(@D)
	$(CXX) -fPIC -c $< -o $@
$(LIBRARY_report/html): $(BUILD)/obj/report/html/assets.o

# The tests link all of the folder but main().
$(BUILD)/obj/cli/main.o: EXTRA_CXXFLAGS = $(FLAGS_cli)
$(BUILD)/devtrace: $(BUILD)/obj/cli/main.o $(call libraries,cli) $(OLD_GLIBC_NEEDS)
	mkdir -p $(@D)
	$(CXX) $(LDFLAGS) $(LINK_INPUTS) -Wl,--gc-sections -static-libstdc++ -static-libgcc $^ -lbacktrace $(OLD_GLIBC_START) -o $@
