# Shortens the output of go test -v. It shows one line for a package that passed, the
# whole output of one that failed, and the reasons of skipped tests. It ends with
# the number of tests, and with an error if a test failed or was skipped, or none
# was run.

{ lines[++n] = $0 }

# Keeps the output of each test, for the reason in case it is skipped.
/^=== / { test = $3 }
/^ *--- / { test = "" }
test != "" && !/^=== / { output[test] = output[test] "\n" $0 }

/^ *--- PASS: / { passed++ }

/^ *--- FAIL: / { failed++ }

/^ *--- SKIP: / { skips[++skipped] = $0 output[$3] }

# The last line of a package.
/^(ok|FAIL)[ \t]+[^ \t]/ || /^\?  / || /\[no test files\]$/ {
	if (/^FAIL/) {
		broken++
		for (i = 1; i < n; i++) print lines[i]
	}
	if (!/no test files/) print
	fflush()
	n = 0
	test = ""
	split("", output)
}

END {
	for (i = 1; i <= n; i++) print lines[i]
	for (i = 1; i <= skipped; i++) print skips[i]
	printf "%d tests passed, %d failed, %d skipped\n", passed, failed, skipped
	if (skipped) print "FAIL: no test may be skipped here"
	exit (skipped || failed || broken || !passed) ? 1 : 0
}
