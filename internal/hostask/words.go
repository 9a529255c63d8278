package hostask

import "strings"

// Words says what somebody is asked about hosts: which they are, and which answers
// there are. always offers to keep the answer.
func Words(hosts []string, always bool) (text, prompt string) {
	names := make([]string, len(hosts))
	for i, host := range hosts {
		names[i] = describe(host)
	}
	which, keep := "Allow that?", ""
	if len(hosts) > 1 {
		which = "Allow them all?"
	}
	if always {
		keep = "[a]lways, "
	}
	return strings.Join(names, ", "), which + " [y]es, for this command, for this [s]ession, " + keep + "[n]o, or say why not: "
}

// describe shows a host. Names in other scripts are shown as they travel, since
// letters of one script look like those of another.
func describe(host string) string {
	if strings.HasPrefix(host, "xn--") || strings.Contains(host, ".xn--") {
		return host + " (punycode: another script)"
	}
	return host
}
