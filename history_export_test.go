package pygent

// OpenHistoryOn is OpenHistory on a disk of a test.
var OpenHistoryOn = openHistoryOn
