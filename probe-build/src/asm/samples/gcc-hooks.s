	.file	"s.c"
	.text
	.p2align 4
	.globl	tail
	.type	tail, @function
tail:
.LFB2:
	.cfi_startproc
	pushq	%rbp	# 32	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	leaq	tail(%rip), %rbp	# 9	[c=1 l=7]  *movdi_internal/4
	pushq	%rbx	# 33	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 24
	.cfi_offset 3, -24
	movl	%edi, %ebx	# 2	[c=4 l=2]  *movsi_internal/0
	movq	%rbp, %rdi	# 10	[c=4 l=3]  *movdi_internal/3
	subq	$8, %rsp	# 34	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 32
	movq	24(%rsp), %rsi	# 8	[c=9 l=5]  *movdi_internal/3
	call	__cyg_profile_func_enter@PLT	# 11	[c=0 l=5]  *call
	leal	1(%rbx), %edi	# 31	[c=4 l=3]  *leasi
	call	ext@PLT	# 14	[c=10 l=5]  *call_value
	movq	24(%rsp), %rsi	# 18	[c=9 l=5]  *movdi_internal/3
	movq	%rbp, %rdi	# 20	[c=4 l=3]  *movdi_internal/3
	movl	%eax, %ebx	# 15	[c=4 l=2]  *movsi_internal/0
	call	__cyg_profile_func_exit@PLT	# 21	[c=0 l=5]  *call
	addq	$8, %rsp	# 37	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 24
	movl	%ebx, %eax	# 25	[c=4 l=2]  *movsi_internal/0
	popq	%rbx	# 38	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 16
	popq	%rbp	# 39	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 40	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE2:
	.size	tail, .-tail
	.p2align 4
	.globl	indirect
	.type	indirect, @function
indirect:
.LFB3:
	.cfi_startproc
	pushq	%rbp	# 39	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	leaq	indirect(%rip), %rbp	# 9	[c=1 l=7]  *movdi_internal/4
	pushq	%rbx	# 40	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 24
	.cfi_offset 3, -24
	movl	%edi, %ebx	# 2	[c=4 l=2]  *movsi_internal/0
	movq	%rbp, %rdi	# 10	[c=4 l=3]  *movdi_internal/3
	subq	$8, %rsp	# 41	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 32
	movq	24(%rsp), %rsi	# 8	[c=9 l=5]  *movdi_internal/3
	call	__cyg_profile_func_enter@PLT	# 11	[c=0 l=5]  *call
	movl	%ebx, %edx	# 37	[c=4 l=2]  *movsi_internal/0
	leaq	table(%rip), %rax	# 34	[c=1 l=7]  *movdi_internal/4
	movl	%ebx, %edi	# 16	[c=4 l=2]  *movsi_internal/0
	andl	$3, %edx	# 33	[c=5 l=3]  *andsi_1_zext
	call	*(%rax,%rdx,8)	# 17	[c=19 l=3]  *call_value
	movq	24(%rsp), %rsi	# 21	[c=9 l=5]  *movdi_internal/3
	movq	%rbp, %rdi	# 23	[c=4 l=3]  *movdi_internal/3
	movl	%eax, %ebx	# 18	[c=4 l=2]  *movsi_internal/0
	call	__cyg_profile_func_exit@PLT	# 24	[c=0 l=5]  *call
	addq	$8, %rsp	# 44	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 24
	movl	%ebx, %eax	# 28	[c=4 l=2]  *movsi_internal/0
	popq	%rbx	# 45	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 16
	popq	%rbp	# 46	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 47	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE3:
	.size	indirect, .-indirect
	.p2align 4
	.type	twice, @function
twice:
.LFB0:
	.cfi_startproc
	pushq	%rbp	# 33	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	leaq	twice(%rip), %rbp	# 9	[c=1 l=7]  *movdi_internal/4
	pushq	%rbx	# 34	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 24
	.cfi_offset 3, -24
	movl	%edi, %ebx	# 2	[c=4 l=2]  *movsi_internal/0
	movq	%rbp, %rdi	# 10	[c=4 l=3]  *movdi_internal/3
	subq	$8, %rsp	# 35	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 32
	movq	24(%rsp), %rsi	# 8	[c=9 l=5]  *movdi_internal/3
	call	__cyg_profile_func_enter@PLT	# 11	[c=0 l=5]  *call
	movl	%ebx, %edi	# 12	[c=4 l=2]  *movsi_internal/0
	call	ext@PLT	# 13	[c=10 l=5]  *call_value
	movq	24(%rsp), %rsi	# 17	[c=9 l=5]  *movdi_internal/3
	movq	%rbp, %rdi	# 19	[c=4 l=3]  *movdi_internal/3
	movl	%eax, %ebx	# 14	[c=4 l=2]  *movsi_internal/0
	call	__cyg_profile_func_exit@PLT	# 20	[c=0 l=5]  *call
	addq	$8, %rsp	# 38	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 24
	leal	(%rbx,%rbx), %eax	# 32	[c=12 l=3]  *leasi
	popq	%rbx	# 39	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 16
	popq	%rbp	# 40	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 41	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE0:
	.size	twice, .-twice
	.p2align 4
	.type	inner, @function
inner:
.LFB1:
	.cfi_startproc
	pushq	%rbp	# 33	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	leaq	inner(%rip), %rbp	# 9	[c=1 l=7]  *movdi_internal/4
	pushq	%rbx	# 34	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 24
	.cfi_offset 3, -24
	movl	%edi, %ebx	# 2	[c=4 l=2]  *movsi_internal/0
	movq	%rbp, %rdi	# 10	[c=4 l=3]  *movdi_internal/3
	subq	$8, %rsp	# 35	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 32
	movq	24(%rsp), %rsi	# 8	[c=9 l=5]  *movdi_internal/3
	call	__cyg_profile_func_enter@PLT	# 11	[c=0 l=5]  *call
	movl	%ebx, %edi	# 12	[c=4 l=2]  *movsi_internal/0
	call	ext@PLT	# 13	[c=10 l=5]  *call_value
	movq	24(%rsp), %rsi	# 17	[c=9 l=5]  *movdi_internal/3
	movq	%rbp, %rdi	# 19	[c=4 l=3]  *movdi_internal/3
	movl	%eax, %ebx	# 14	[c=4 l=2]  *movsi_internal/0
	call	__cyg_profile_func_exit@PLT	# 20	[c=0 l=5]  *call
	addq	$8, %rsp	# 38	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 24
	leal	1(%rbx), %eax	# 32	[c=4 l=3]  *leasi
	popq	%rbx	# 39	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 16
	popq	%rbp	# 40	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 41	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE1:
	.size	inner, .-inner
	.p2align 4
	.globl	go
	.type	go, @function
go:
.LFB5:
	.cfi_startproc
	pushq	%r13	# 73	[c=4 l=2]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 13, -16
	leaq	go(%rip), %r13	# 10	[c=1 l=7]  *movdi_internal/4
	pushq	%r12	# 74	[c=4 l=2]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 24
	.cfi_offset 12, -24
	leaq	to.0(%rip), %r12	# 13	[c=1 l=7]  *movdi_internal/4
	pushq	%rbp	# 75	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 32
	.cfi_offset 6, -32
	xorl	%ebp, %ebp	# 115	[c=4 l=2]  *movdi_xor
	pushq	%rbx	# 76	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 40
	.cfi_offset 3, -40
	movq	%rdi, %rbx	# 2	[c=4 l=3]  *movdi_internal/3
	movq	%r13, %rdi	# 11	[c=4 l=3]  *movdi_internal/3
	addq	$2, %rbx	# 17	[c=4 l=4]  *adddi_1/0
	subq	$8, %rsp	# 77	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 48
	movq	40(%rsp), %rsi	# 9	[c=9 l=5]  *movdi_internal/3
	call	__cyg_profile_func_enter@PLT	# 12	[c=0 l=5]  *call
	movzbl	-2(%rbx), %eax	# 15	[c=13 l=4]  zero_extendqidi2/0
	movq	(%r12,%rax,8), %rax	# 16	[c=10 l=4]  *movdi_internal/3
	jmp	*%rax	# 111	[c=4 l=2]  *indirect_jump
	.p2align 4,,10
	.p2align 3
.L15:
	movq	40(%rsp), %rsi	# 50	[c=9 l=5]  *movdi_internal/3
	movq	%r13, %rdi	# 52	[c=4 l=3]  *movdi_internal/3
	call	__cyg_profile_func_exit@PLT	# 53	[c=0 l=5]  *call
	addq	$8, %rsp	# 80	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_remember_state
	.cfi_def_cfa_offset 40
	movl	%ebp, %eax	# 57	[c=4 l=2]  *movsi_internal/0
	popq	%rbx	# 81	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 32
	popq	%rbp	# 82	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 24
	popq	%r12	# 83	[c=9 l=2]  *popdi1
	.cfi_def_cfa_offset 16
	popq	%r13	# 84	[c=9 l=2]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 85	[c=0 l=1]  simple_return_internal
	.p2align 4,,10
	.p2align 3
.L13:
	.cfi_restore_state
	movzbl	-1(%rbx), %eax	# 41	[c=13 l=4]  zero_extendqidi2/0
	addl	%ebp, %ebp	# 38	[c=4 l=2]  *ashlsi3_1/0
	addq	$1, %rbx	# 105	[c=4 l=4]  *adddi_1/0
	movq	(%r12,%rax,8), %rax	# 42	[c=10 l=4]  *movdi_internal/3
	jmp	*%rax	# 106	[c=4 l=2]  *indirect_jump
	.p2align 4,,10
	.p2align 3
.L12:
	movl	$1, %edi	# 22	[c=4 l=5]  *movsi_internal/0
	addq	$1, %rbx	# 97	[c=4 l=4]  *adddi_1/0
	call	ext@PLT	# 23	[c=10 l=5]  *call_value
	addl	%eax, %ebp	# 25	[c=4 l=2]  *addsi_1/0
	movzbl	-2(%rbx), %eax	# 28	[c=13 l=4]  zero_extendqidi2/0
	movq	(%r12,%rax,8), %rax	# 29	[c=10 l=4]  *movdi_internal/3
	jmp	*%rax	# 98	[c=4 l=2]  *indirect_jump
	.cfi_endproc
.LFE5:
	.size	go, .-go
	.p2align 4
	.globl	maybe
	.type	maybe, @function
maybe:
.LFB6:
	.cfi_startproc
	pushq	%rbp	# 44	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	leaq	maybe(%rip), %rbp	# 9	[c=1 l=7]  *movdi_internal/4
	pushq	%rbx	# 45	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 24
	.cfi_offset 3, -24
	movl	%edi, %ebx	# 2	[c=4 l=2]  *movsi_internal/0
	movq	%rbp, %rdi	# 10	[c=4 l=3]  *movdi_internal/3
	subq	$8, %rsp	# 46	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 32
	movq	24(%rsp), %rsi	# 8	[c=9 l=5]  *movdi_internal/3
	call	__cyg_profile_func_enter@PLT	# 11	[c=0 l=5]  *call
	testl	%ebx, %ebx	# 12	[c=4 l=2]  *cmpsi_ccno_1/0
	jne	.L27	# 13	[c=13 l=2]  *jcc
.L22:
	movq	24(%rsp), %rsi	# 22	[c=9 l=5]  *movdi_internal/3
	movq	%rbp, %rdi	# 24	[c=4 l=3]  *movdi_internal/3
	call	__cyg_profile_func_exit@PLT	# 25	[c=0 l=5]  *call
	addq	$8, %rsp	# 49	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_remember_state
	.cfi_def_cfa_offset 24
	movl	%ebx, %eax	# 30	[c=4 l=2]  *movsi_internal/0
	popq	%rbx	# 50	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 16
	popq	%rbp	# 51	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 52	[c=0 l=1]  simple_return_internal
	.p2align 4,,10
	.p2align 3
.L27:
	.cfi_restore_state
	movl	%ebx, %edi	# 15	[c=4 l=2]  *movsi_internal/0
	call	ext@PLT	# 16	[c=10 l=5]  *call_value
	movl	%eax, %ebx	# 17	[c=4 l=2]  *movsi_internal/0
	jmp	.L22	# 57	[c=1 l=2]  jump
	.cfi_endproc
.LFE6:
	.size	maybe, .-maybe
	.p2align 4
	.globl	fences
	.type	fences, @function
fences:
.LFB7:
	.cfi_startproc
	pushq	%rbp	# 28	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	leaq	fences(%rip), %rbp	# 8	[c=1 l=7]  *movdi_internal/4
	pushq	%rbx	# 29	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 24
	.cfi_offset 3, -24
	movq	%rbp, %rdi	# 9	[c=4 l=3]  *movdi_internal/3
	xorl	%ebx, %ebx	# 40	[c=4 l=2]  *movdi_xor
	subq	$8, %rsp	# 30	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 32
	movq	24(%rsp), %rsi	# 7	[c=9 l=5]  *movdi_internal/3
	call	__cyg_profile_func_enter@PLT	# 10	[c=0 l=5]  *call
#APP
# 29 "s.c" 1
	1: pause; jne 1b
# 0 "" 2
#NO_APP
	movq	24(%rsp), %rsi	# 16	[c=9 l=5]  *movdi_internal/3
	movq	%rbp, %rdi	# 18	[c=4 l=3]  *movdi_internal/3
	call	__cyg_profile_func_exit@PLT	# 19	[c=0 l=5]  *call
	addq	$8, %rsp	# 33	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 24
	movl	%ebx, %eax	# 23	[c=4 l=2]  *movsi_internal/0
	popq	%rbx	# 34	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 16
	popq	%rbp	# 35	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 36	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE7:
	.size	fences, .-fences
	.p2align 4
	.globl	loop
	.type	loop, @function
loop:
.LFB8:
	.cfi_startproc
	pushq	%rbp	# 48	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 6, -16
	leaq	loop(%rip), %rbp	# 9	[c=1 l=7]  *movdi_internal/4
	pushq	%rbx	# 49	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 24
	.cfi_offset 3, -24
	movq	%rdi, %rbx	# 2	[c=4 l=3]  *movdi_internal/3
	movq	%rbp, %rdi	# 10	[c=4 l=3]  *movdi_internal/3
	subq	$8, %rsp	# 50	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 32
	movq	24(%rsp), %rsi	# 8	[c=9 l=5]  *movdi_internal/3
	call	__cyg_profile_func_enter@PLT	# 11	[c=0 l=5]  *call
	movl	(%rbx), %edi	# 12	[c=5 l=2]  *movsi_internal/0
	.p2align 4,,10
	.p2align 3
.L31:
	call	ext@PLT	# 15	[c=10 l=5]  *call_value
	addl	(%rbx), %eax	# 18	[c=9 l=2]  *addsi_1/1
	movl	%eax, (%rbx)	# 19	[c=4 l=2]  *movsi_internal/1
	movl	%eax, %edi	# 47	[c=4 l=2]  *movsi_internal/0
	cmpl	$99, %eax	# 23	[c=4 l=3]  *cmpsi_1/0
	jle	.L31	# 24	[c=13 l=2]  *jcc
	movq	24(%rsp), %rsi	# 28	[c=9 l=5]  *movdi_internal/3
	movq	%rbp, %rdi	# 30	[c=4 l=3]  *movdi_internal/3
	call	__cyg_profile_func_exit@PLT	# 31	[c=0 l=5]  *call
	addq	$8, %rsp	# 53	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 24
	movl	$3, %eax	# 36	[c=4 l=5]  *movsi_internal/0
	popq	%rbx	# 54	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 16
	popq	%rbp	# 55	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 56	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE8:
	.size	loop, .-loop
	.section	.text.unlikely,"ax",@progbits
.LCOLDB0:
	.text
.LHOTB0:
	.p2align 4
	.globl	choose
	.type	choose, @function
choose:
.LFB4:
	.cfi_startproc
	pushq	%r12	# 120	[c=4 l=2]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 12, -16
	pushq	%rbp	# 121	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 24
	.cfi_offset 6, -24
	leaq	choose(%rip), %rbp	# 10	[c=1 l=7]  *movdi_internal/4
	pushq	%rbx	# 122	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 32
	.cfi_offset 3, -32
	movq	24(%rsp), %rsi	# 9	[c=9 l=5]  *movdi_internal/3
	movl	%edi, %ebx	# 2	[c=1 l=2]  *zero_extendsidi2/3
	movq	%rbp, %rdi	# 11	[c=4 l=3]  *movdi_internal/3
	call	__cyg_profile_func_enter@PLT	# 12	[c=0 l=5]  *call
	cmpl	$5, %ebx	# 15	[c=4 l=3]  *cmpsi_1/0
	ja	.L35	# 16	[c=13 l=6]  *jcc
	leaq	.L37(%rip), %rdx	# 18	[c=1 l=7]  *movdi_internal/4
	movslq	(%rdx,%rbx,4), %rax	# 20	[c=14 l=4]  *extendsidi2_rex64/1
	addq	%rdx, %rax	# 22	[c=4 l=3]  *adddi_1/0
	jmp	*%rax	# 23	[c=4 l=2]  *tablejump_1
	.section	.rodata
	.align 4
	.align 4
.L37:
	.long	.L42-.L37
	.long	.L41-.L37
	.long	.L43-.L37
	.long	.L39-.L37
	.long	.L38-.L37
	.long	.L36-.L37
	.text
	.p2align 4,,10
	.p2align 3
.L38:
	movl	$7, %edi	# 64	[c=4 l=5]  *movsi_internal/0
	call	ext@PLT	# 65	[c=10 l=5]  *call_value
	leal	1(%rax), %ebx	# 117	[c=4 l=3]  *leasi
.L40:
	movq	24(%rsp), %rsi	# 85	[c=9 l=5]  *movdi_internal/3
	movq	%rbp, %rdi	# 87	[c=4 l=3]  *movdi_internal/3
	call	__cyg_profile_func_exit@PLT	# 88	[c=0 l=5]  *call
	movl	%ebx, %eax	# 92	[c=4 l=2]  *movsi_internal/0
	popq	%rbx	# 125	[c=9 l=1]  *popdi1
	.cfi_remember_state
	.cfi_def_cfa_offset 24
	popq	%rbp	# 126	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 16
	popq	%r12	# 127	[c=9 l=2]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 128	[c=0 l=1]  simple_return_internal
	.p2align 4,,10
	.p2align 3
.L36:
	.cfi_restore_state
	movl	$3, %edi	# 72	[c=4 l=5]  *movsi_internal/0
	call	inner	# 73	[c=10 l=5]  *call_value
	movl	%eax, %ebx	# 74	[c=4 l=2]  *movsi_internal/0
	jmp	.L40	# 132	[c=1 l=2]  jump
	.p2align 4,,10
	.p2align 3
.L42:
	movl	$3, %edi	# 29	[c=4 l=5]  *movsi_internal/0
	call	ext@PLT	# 30	[c=10 l=5]  *call_value
	movl	%eax, %ebx	# 31	[c=4 l=2]  *movsi_internal/0
	jmp	.L40	# 134	[c=1 l=2]  jump
	.p2align 4,,10
	.p2align 3
.L41:
	movl	$9, %edi	# 36	[c=4 l=5]  *movsi_internal/0
	call	ext@PLT	# 37	[c=10 l=5]  *call_value
	leal	1(%rax), %ebx	# 119	[c=4 l=3]  *leasi
	jmp	.L40	# 136	[c=1 l=2]  jump
	.p2align 4,,10
	.p2align 3
.L43:
	movl	$88, %ebx	# 4	[c=4 l=5]  *movsi_internal/0
	jmp	.L40	# 138	[c=1 l=2]  jump
	.p2align 4,,10
	.p2align 3
.L39:
	movq	24(%rsp), %rsi	# 46	[c=9 l=5]  *movdi_internal/3
	leaq	twice(%rip), %r12	# 47	[c=1 l=7]  *movdi_internal/4
	movq	%r12, %rdi	# 48	[c=4 l=3]  *movdi_internal/3
	call	__cyg_profile_func_enter@PLT	# 49	[c=0 l=5]  *call
	movl	$3, %edi	# 50	[c=4 l=5]  *movsi_internal/0
	call	ext@PLT	# 51	[c=10 l=5]  *call_value
	movq	24(%rsp), %rsi	# 56	[c=9 l=5]  *movdi_internal/3
	movq	%r12, %rdi	# 58	[c=4 l=3]  *movdi_internal/3
	leal	(%rax,%rax), %ebx	# 118	[c=12 l=3]  *leasi
	call	__cyg_profile_func_exit@PLT	# 59	[c=0 l=5]  *call
	jmp	.L40	# 140	[c=1 l=5]  jump
	.cfi_endproc
	.section	.text.unlikely
	.cfi_startproc
	.type	choose.cold, @function
choose.cold:
.LFSB4:
.L35:
	.cfi_def_cfa_offset 32
	.cfi_offset 3, -32
	.cfi_offset 6, -24
	.cfi_offset 12, -16
	call	abort@PLT	# 79	[c=0 l=5]  *call
	.cfi_endproc
.LFE4:
	.text
	.size	choose, .-choose
	.section	.text.unlikely
	.size	choose.cold, .-choose.cold
.LCOLDE0:
	.text
.LHOTE0:
	.section	.data.rel.ro.local,"aw"
	.align 16
	.type	to.0, @object
	.size	to.0, 24
to.0:
	.quad	.L12
	.quad	.L13
	.quad	.L15
	.ident	"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0"
	.section	.note.GNU-stack,"",@progbits
