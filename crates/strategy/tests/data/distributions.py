"""Values of scipy's distributions, as distributions.csv holds them: python3 distributions.py > distributions.csv"""

from scipy import stats

print("function,first,second,third,value")
for tail in (1e-9, 1e-4, 0.001, 0.025, 0.2, 0.5, 0.9, 0.999):
    print(f"normal_quantile,{tail!r},,,{float(stats.norm.isf(tail))!r}")
for freedom in (1.0, 1.5, 2.0, 3.3, 4.0, 7.0, 14.0, 18.0, 37.5, 100.0, 9998.0):
    for alpha in (4e-6, 1e-4, 0.0065, 0.05, 0.2, 0.9):
        print(f"student_quantile,{alpha!r},{freedom!r},,{float(stats.t.isf(alpha / 2, freedom))!r}")
    for t in (0.0, 0.3, 1.0, 2.5, 6.0, 40.0):
        print(f"student_two_sided,{t!r},{freedom!r},,{float(2 * stats.t.sf(t, freedom))!r}")
